package gateway

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

// SamplingTimeout bounds a call of sampling/createMessage: models think.
const SamplingTimeout = 2 * time.Minute

// dispatch puts the call on the bus. It bounds it by the tool's time limit,
// and repeats it once where that can do no harm.
func dispatch(caller *bus.Caller, store Tasks, sealer *Sealer, lending lending) Next {
	return func(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
		if room := budget.Of(ctx); room != nil {
			room.For(c.Payer())
			ctx = bus.WithRoom(ctx, room)
		}
		send := func(req *busv1.Request) (*busv1.Frame, error) {
			if c.Target.Service == bus.Lender {
				return lending.borrow(ctx, c.Principal, req)
			}
			return caller.CallOn(ctx, c.Stream, c.Target.Service, req, onFrame)
		}
		deadline := time.Now().Add(timeLimit(c))
		req := request(c, deadline)
		var err error
		if req.Delegation, err = sealer.delegate(ctx, c, deadline); err != nil {
			return nil, err
		}
		frame, err := send(req)
		if err != nil && repeatable(c, err) && pause(ctx) {
			again := request(c, deadline)
			again.Id = "" // late frames of the first must not be taken for this one's
			again.Delegation = req.Delegation
			frame, err = send(again)
		}
		if err != nil {
			return nil, err
		}
		if begun := frame.GetTask(); begun != nil {
			task := request(c, deadline)
			if task.Delegation, err = sealer.delegate(ctx, c, time.Now().Add(keyLife)); err != nil {
				return nil, err
			}
			return createTask(ctx, c, store, task, begun)
		}
		return answerOf(frame), nil
	}
}

// timeLimit is the longest a call may take.
func timeLimit(c *Call) time.Duration {
	switch t := c.Target.Tool; {
	case t != nil && t.Timeout > 0:
		return t.Timeout
	case c.Method == mcp.MethodSample:
		return SamplingTimeout
	}
	return bus.DefaultTimeout
}

func request(c *Call, deadline time.Time) *busv1.Request {
	return &busv1.Request{
		Id: c.ID, DeadlineUnixNano: uint64(deadline.UnixNano()),
		Method: c.Method, Name: c.Name, Arguments: c.Arguments, Client: c.Client,
		WantsProgress: c.WantsProgress, LogLevel: c.LogLevel,
		InputResponses: c.InputResponses, RequestState: c.RequestState, IdempotencyKey: c.IdempotencyKey,
		Identity:    identity(c.Principal),
		Traceparent: c.Traceparent, Tracestate: c.Tracestate,
	}
}

// repeatable reports whether a failed call may be made again unasked: a full
// instance started nothing, so another one may have room; a lost one may have
// run the call, which only read-only calls survive unharmed.
func repeatable(c *Call, err error) bool {
	switch {
	case fault.Is(err, fault.Overloaded):
		return fault.From(err).Executed == fault.No
	case fault.Is(err, fault.PeerLost):
		if c.Method == mcp.MethodSample {
			return false // no effect, but somebody pays for each
		}
		return c.Target.Tool == nil || c.Target.Tool.ReadOnly
	}
	return false
}

// pause waits a moment before a repetition; false when ctx ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(20 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}
