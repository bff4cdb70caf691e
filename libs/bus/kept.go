package bus

import (
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Limits of what an instance keeps of calls with an idempotency key, for edges
// that take over from one that died (ADR 0021).
const (
	// keptLife is how long it keeps an answer.
	keptLife = 5 * time.Minute
	// maxKeptAnswer is the largest answer kept, maxKeptBytes all of them. Beyond
	// it the oldest make room.
	maxKeptAnswer = 96 << 10
	maxKeptBytes  = 32 << 20
	// maxKeptCalls bounds the calls that an instance knows to have begun here,
	// with or without their answers.
	maxKeptCalls = 65_536
)

// keptCalls are the calls with an idempotency key that an instance began.
type keptCalls struct {
	mu    sync.Mutex
	calls map[string]*keptCall
	// order has those that are over, the oldest first, in two parts: of the first
	// forgotten ones only the names are left.
	order     []*keptCall
	forgotten int
	bytes     int
	// lost says that some call is not even known any more.
	lost bool
}

type keptCall struct {
	id string
	// attempts are those that have begun and not ended.
	attempts int
	answer   *busv1.Frame // nil until one has ended, and once it is forgotten
	ended    bool
	size     int
	at       time.Time
}

// FirstID is the id of a call's first attempt: each of the next has a number
// behind it. The id of a task, which begins with its service, is the same in
// every attempt.
func FirstID(id string) string {
	if strings.Contains(id, ".") {
		return id
	}
	first, _, _ := strings.Cut(id, "-")
	return first
}

// begin notes that an attempt of a call is about to run.
func (k *keptCalls) begin(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls == nil {
		k.calls = map[string]*keptCall{}
	}
	c := k.calls[FirstID(id)]
	if c == nil {
		c = &keptCall{id: FirstID(id)}
		k.calls[c.id] = c
	}
	c.attempts++
}

// unbegun takes begin back. What other attempts of the call did stays known.
func (k *keptCalls) unbegun(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	if c == nil {
		return
	}
	if c.attempts--; c.attempts == 0 && !c.ended {
		delete(k.calls, c.id)
	}
}

// end keeps how a call ended: with a body, or with f.
func (k *keptCalls) end(id string, body proto.Message, f *fault.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	if c == nil {
		return
	}
	c.attempts--
	if c.ended { // an earlier attempt, whose answer this one takes the place of
		c = &keptCall{id: c.id, attempts: c.attempts}
		k.calls[c.id] = c
	}
	c.answer, c.ended, c.at = keptFrame(body, f), true, time.Now()
	c.size = proto.Size(c.answer)
	k.bytes += c.size
	k.order = append(k.order, c)
	for k.forgotten < len(k.order) {
		oldest := k.order[k.forgotten]
		if k.bytes <= maxKeptBytes && time.Since(oldest.at) <= keptLife {
			break
		}
		k.bytes -= oldest.size
		oldest.answer = nil
		k.forgotten++
	}
	for len(k.order) > maxKeptCalls {
		if oldest := k.order[0]; k.calls[oldest.id] == oldest {
			delete(k.calls, oldest.id)
		}
		if k.forgotten > 0 {
			k.forgotten--
		} else {
			k.bytes -= k.order[0].size
		}
		k.order[0], k.lost = nil, true
		k.order = k.order[1:]
	}
}

// keptFrame is the frame that ends a call. A large result is kept as the error
// that a repetition is told.
func keptFrame(body proto.Message, f *fault.Error) *busv1.Frame {
	switch b := body.(type) {
	case nil:
		if f != nil {
			return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(f)}}
		}
	case *busv1.Result:
		if len(b.Json)+len(b.Meta) > maxKeptAnswer {
			return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.ResultTooLarge, "the result is too large to be kept"))}}
		}
		// Not b itself: to be sent, it is cut in pieces.
		return &busv1.Frame{Body: &busv1.Frame_Result{Result: &busv1.Result{Json: b.Json, Meta: b.Meta, IsError: b.IsError}}}
	case *busv1.InputRequired:
		return &busv1.Frame{Body: &busv1.Frame_InputRequired{InputRequired: &busv1.InputRequired{}}}
	case *busv1.Task:
		return &busv1.Frame{Body: &busv1.Frame_Task{Task: &busv1.Task{}}}
	}
	return &busv1.Frame{Body: &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.Internal, "the service gave no result"))}}
}

// outcome says what is known of a call.
func (k *keptCalls) outcome(id string) *busv1.Outcome {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.calls[FirstID(id)]
	switch {
	case c == nil && k.lost:
		return &busv1.Outcome{State: busv1.Outcome_STATE_FORGOTTEN}
	case c == nil:
		return &busv1.Outcome{State: busv1.Outcome_STATE_NEVER_BEGUN}
	case c.attempts > 0:
		return &busv1.Outcome{State: busv1.Outcome_STATE_RUNNING}
	case c.answer == nil || time.Since(c.at) > keptLife:
		return &busv1.Outcome{State: busv1.Outcome_STATE_FORGOTTEN}
	}
	return &busv1.Outcome{State: busv1.Outcome_STATE_ENDED, Answer: c.answer}
}
