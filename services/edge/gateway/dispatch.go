package gateway

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// SamplingTimeout bounds a call of sampling/createMessage: models think.
const SamplingTimeout = 2 * time.Minute

// shareBytes of the digest of who pays are enough to tell callers apart.
const shareBytes = 8

// dispatch puts the call on the bus, bounded by the tool's time limit. What may
// have an effect begins only with this edge's permit; what has none may be made
// again when its answer is lost.
func dispatch(caller *edges.Caller, store Tasks, sealer *Sealer) Next {
	shares := quota.New("tasks", maxTasksOfPayer, maxTaskBytes)
	return func(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
		room := budget.Of(ctx)
		room.For(c.Payer())
		deadline := time.Now().Add(timeLimit(c))
		req := request(c, deadline)
		var err error
		if req.Delegation, err = sealer.delegate(ctx, c, earlier(deadline, time.Now().Add(maxDelegation))); err != nil {
			return nil, err
		}
		frame, err := caller.CallOn(ctx, c.Stream, c.Target.Service, req, bus.Options{
			OnFrame: onFrame, Permit: c.permit, Harmless: harmless(c), Only: c.Target.Instances, Ran: &c.Ran, Room: room,
		})
		if err != nil {
			return nil, err
		}
		c.Replayed = c.Target.Tool != nil && c.Target.Tool.KeepsKeys && c.IdempotencyKey != "" && frame.GetResult().GetReplayed()
		if begun := frame.GetTask(); begun != nil {
			task := request(c, deadline)
			if task.Delegation, err = sealer.delegate(ctx, c, time.Now().Add(keyLife)); err != nil {
				return nil, err
			}
			return createTask(ctx, c, store, shares, task, begun)
		}
		return answerOf(frame), nil
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
		AskFirst: c.Effect(),
		Share:    &busv1.Share{Payer: digest([]byte("share"), []byte(c.Payer()))[:shareBytes], Depth: c.depth},
	}
}

// harmless reports whether a call may run twice unasked.
func harmless(c *Call) bool {
	if c.Method == mcp.MethodSample {
		return false // no effect, but somebody pays for each
	}
	return !c.Effect()
}
