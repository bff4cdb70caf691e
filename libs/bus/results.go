package bus

import (
	"sync"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/share"
)

// Large results of an instance share a budget in MiB, as calls share slots: a call with a large
// result begins when the budget allows it (ADR 0095). The size of a result is unknown before it is
// made, so it is predicted from the tool's recent results. If the result is larger than predicted,
// the difference counts at once and other calls wait.

// resultBudget is how many MiB the large results of one depth may use at an instance, from before
// they are made until NATS has them.
const resultBudget = 64

// sizes expects the sizes of results.
type sizes struct {
	mu   sync.Mutex
	made share.Sizes[sized] // bytes
}

func newSizes() sizes { return sizes{made: share.Sizes[sized]{Large: inlineResult}} }

// sized names a tool, prompt or resource.
type sized struct{ method, name string }

// weight is the MiB that a call is expected to need; 0 for one whose result is small or
// not known.
func (s *sizes) weight(req *busv1.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.made.Of(sized{req.Method, req.Name}, "")
	return mebibytes(int(n))
}

// mebibytes is what a result of n bytes counts, in MiB; 0 for one that goes out in one frame.
func mebibytes(n int) int {
	if n <= inlineResult {
		return 0
	}
	return (n + 1<<20 - 1) >> 20
}

// note counts a result of n bytes, or a call without one. Callers are not told apart: the sum over
// all calls is what is limited.
func (s *sizes) note(req *busv1.Request, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made.Note(sized{req.Method, req.Name}, "", int64(n))
}

// resultSize is the size of a call's result in bytes; 0 for any other end.
func resultSize(body proto.Message) int {
	if r, ok := body.(*busv1.Result); ok {
		return len(r.GetJson())
	}
	return 0
}
