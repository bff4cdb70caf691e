package bus

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// callOutcome is the call that asks an instance what became of another one.
const callOutcome = "busbar/outcome"

// outcomeTime bounds that question, which waits for no slot.
const outcomeTime = 250 * time.Millisecond

// CallState is what an instance knows of a call with an idempotency key.
type CallState int

const (
	// CallUnknown: nobody answers, or the instance does not know any more.
	CallUnknown CallState = iota
	// CallGone: the instance is not there, and its memory with it.
	CallGone
	// CallRunning: it waits for its permit, or runs.
	CallRunning
	// CallNeverBegun: it did not begin there, and will not.
	CallNeverBegun
	// CallEnded: with the answer returned.
	CallEnded
)

// Outcome asks the instance of a service what became of a call: frame or err is
// how it ended, of one that has. It takes 250 ms at most.
func (c *Caller) Outcome(ctx context.Context, service, instance, call string) (state CallState, frame *busv1.Frame, err error) {
	if !subject.Token(service) || !subject.Token(instance) {
		return CallUnknown, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	deadline, _ := ctx.Deadline()
	id := NewID()
	data, err := proto.Marshal(&busv1.Request{Id: id, Method: callOutcome, Name: call, DeadlineUnixNano: uint64(deadline.UnixNano()), RemainingNano: uint64(outcomeTime)})
	if err != nil {
		return CallUnknown, nil, err
	}
	reply := subject.Reply(service, c.edge, id)
	x := c.expect(reply, "")
	defer c.forget(x)
	if err := c.conn.nc.PublishRequest(subject.To(service, instance, callOutcome), reply, data); err != nil {
		return CallUnknown, nil, nil
	}
	a := &answer{caller: c, service: service, deadline: deadline, id: id, reply: reply}
	said, failed := a.wait(ctx, x)
	switch {
	case failed != nil && errors.Is(failed, ErrNoInstance):
		return CallGone, nil, nil
	case failed != nil || said.GetOutcome() == nil:
		return CallUnknown, nil, nil // also an instance that does not know the question
	}
	switch o := said.GetOutcome(); o.State {
	case busv1.Outcome_STATE_RUNNING:
		return CallRunning, nil, nil
	case busv1.Outcome_STATE_NEVER_BEGUN:
		return CallNeverBegun, nil, nil
	case busv1.Outcome_STATE_ENDED:
		if frame, failed = a.checked(o.Answer); failed != nil {
			return CallEnded, nil, failed
		}
		return CallEnded, frame, nil
	}
	return CallUnknown, nil, nil
}

// outcomeOf answers who asks for a call that was made to this instance.
func (s *Server) outcomeOf(call string, out *Responder) {
	out.end(s.kept.outcome(call))
}
