package bus

import (
	"sync"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Large results of an instance share a budget in MiB, as calls share slots: a call with a large
// result begins when the budget allows it (ADR 0095). The size of a result is unknown before it is
// made, so it is predicted from the tool's recent results. If the result is larger than predicted,
// the difference counts at once and other calls wait.

const (
	// resultBudget is how many MiB the large results of one depth may use at an instance, from
	// before they are made until NATS has them.
	resultBudget = 64
	// maxSizes is how many tools, prompts and resources with large results an instance
	// remembers.
	maxSizes = 1024
)

// sizes has the mean sizes of recent large results. Its zero value is ready.
type sizes struct {
	mu   sync.Mutex
	mean map[sized]int // bytes
}

// sized names a tool, prompt or resource.
type sized struct{ method, name string }

// weight is the MiB that a call is expected to need; 0 for one whose result is small or
// not known.
func (s *sizes) weight(req *busv1.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mebibytes(s.mean[sized{req.Method, req.Name}])
}

// mebibytes is what a result of n bytes counts, in MiB; 0 for one that goes out in one frame.
func mebibytes(n int) int {
	if n <= inlineResult {
		return 0
	}
	return (n + 1<<20 - 1) >> 20
}

// note moves the mean of a tool's results halfway to the latest one. A mean is enough because the
// sum over all calls counts, and a tool may have small and large results.
func (s *sizes) note(req *busv1.Request, n int) {
	of := sized{req.Method, req.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	mean, known := s.mean[of]
	switch {
	case known:
		mean = (mean + n) / 2
	case n <= inlineResult:
		return
	default:
		mean = n
	}
	if mean <= inlineResult {
		delete(s.mean, of)
		return
	}
	if s.mean == nil {
		s.mean = map[sized]int{}
	}
	if !known && len(s.mean) >= maxSizes {
		for one := range s.mean { // any
			delete(s.mean, one)
			break
		}
	}
	s.mean[of] = mean
}

// resultSize is the size of a call's result in bytes; 0 for any other end.
func resultSize(body proto.Message) int {
	if r, ok := body.(*busv1.Result); ok {
		return len(r.GetJson())
	}
	return 0
}
