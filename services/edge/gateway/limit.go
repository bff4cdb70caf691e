package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

// Limiter protects the edge and the services behind it.
type Limiter interface {
	// Acquire admits a call and returns what releases its place, or a
	// *fault.Error with reason RateLimited or Overloaded. It must not block.
	Acquire(ctx context.Context, c *Call) (release func(), err error)
}

func limit(l Limiter) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		release, err := l.Acquire(ctx, c)
		if err != nil {
			return nil, err
		}
		defer release()
		return next(ctx, c, onFrame)
	}
}

// carry bounds what the calls in flight have brought, for all and for each party.
func carry(b *budget.Budget) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		release, err := b.Carry(c.payer, len(c.Arguments)+len(c.InputResponses)+len(c.RequestState))
		if err != nil {
			return nil, err
		}
		defer release()
		return next(ctx, c, onFrame)
	}
}

// DefaultInFlight is how many calls one edge carries at once.
const DefaultInFlight = 10_000

// InFlight is the Limiter that bounds the calls in flight.
type InFlight struct {
	limit   int64
	current atomic.Int64
	release func()
}

// NewInFlight returns a Limiter that admits n calls at once.
func NewInFlight(n int) *InFlight {
	l := &InFlight{limit: int64(n)}
	l.release = func() { l.current.Add(-1) }
	return l
}

// Now is how many calls are in flight.
func (l *InFlight) Now() int64 { return l.current.Load() }

// Acquire implements Limiter.
func (l *InFlight) Acquire(context.Context, *Call) (func(), error) {
	if l.current.Add(1) > l.limit {
		l.current.Add(-1)
		e := fault.New(fault.Overloaded, "the edge carries %d calls already; try again shortly", l.limit)
		e.RetryAfter = time.Second
		return nil, e
	}
	return l.release, nil
}
