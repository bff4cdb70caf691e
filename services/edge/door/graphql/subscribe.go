package graphql

import (
	"context"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

type subscription struct {
	api *api.Server
	// closing ends subscriptions that would go on forever.
	closing <-chan struct{}
}

// runningKey is the context key of the goroutines of a connection.
type runningKey struct{}

// spawn runs the source of a subscription. The connection waits for it.
func spawn(ctx context.Context, f func()) {
	ctx.Value(runningKey{}).(interface{ Go(func()) }).Go(f)
}

// toolEvent has one of its members; result may fail.
type toolEvent struct {
	progress *api.Progress
	log      *api.Log
	ended    bool
	result   *api.Result
	err      error
}

// Progress resolves progress.
func (e *toolEvent) Progress() *progress {
	if e.progress == nil {
		return nil
	}
	return &progress{e.progress.Progress, &e.progress.Total, text(e.progress.Message)}
}

// Log resolves log.
func (e *toolEvent) Log() *logged {
	if e.log == nil {
		return nil
	}
	return &logged{e.log.Level, text(e.log.Logger), value(e.log.Data)}
}

// Result resolves result.
func (e *toolEvent) Result() (*toolResult, error) {
	switch {
	case !e.ended:
		return nil, nil
	case e.err != nil:
		return nil, fail(e.err)
	}
	return newToolResult(e.result)
}

type progress struct {
	Progress float64
	Total    *float64
	Message  *string
}

type logged struct {
	Level  string
	Logger *string
	Data   *JSON
}

// pendingEvents is how many events wait for a slow client. Further progress and logs are
// dropped, the result is not.
const pendingEvents = 64

// ExecuteTool resolves executeTool.
func (s *subscription) ExecuteTool(ctx context.Context, in toolArguments) (<-chan *toolEvent, error) {
	events := make(chan *toolEvent, pendingEvents)
	who := callerOf(ctx)
	who.OnFrame = func(f *busv1.Frame) {
		p, l := api.ReadFrame(f)
		if p == nil && l == nil {
			return
		}
		select {
		case events <- &toolEvent{progress: p, log: l}:
		default:
		}
	}
	call, err := in.input(ctx)
	if err != nil {
		return nil, fail(err)
	}
	spawn(ctx, func() {
		defer close(events)
		result, err := s.api.CallTool(ctx, who, call)
		select {
		case events <- &toolEvent{ended: true, result: result, err: err}:
		case <-ctx.Done():
		}
	})
	return events, nil
}

type resourceUpdate struct{ URI string }

// ResourceUpdated resolves resourceUpdated.
func (s *subscription) ResourceUpdated(ctx context.Context, in struct{ URI string }) (<-chan *resourceUpdate, error) {
	lease, ok := ctx.Value(leaseKey{}).(*gateway.Lease)
	if !ok {
		return nil, fail(fault.New(fault.Internal, "a subscription without a connection"))
	}
	updates, err := s.api.Updates(ctx, callerOf(ctx), lease, in.URI)
	if err != nil {
		return nil, fail(err)
	}
	events := make(chan *resourceUpdate)
	spawn(ctx, func() {
		defer close(events)
		defer updates.Close()
		for {
			select {
			case <-updates.C:
			case <-s.closing:
				return
			case <-ctx.Done():
				return
			}
			_, uris := updates.Take()
			for _, uri := range uris {
				select {
				case events <- &resourceUpdate{uri}:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	return events, nil
}
