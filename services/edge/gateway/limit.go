package gateway

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Limiter protects the edge and the services behind it.
type Limiter interface {
	// Acquire admits a call and returns what releases its place, or a
	// *fault.Error with reason RateLimited or Overloaded. It must not block.
	Acquire(ctx context.Context, v View) (release func(), err error)
}

// limit bounds the calls in flight, and the bytes they have brought, for all and
// for each payer.
func limit(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			release, err := cfg.Limiter.Acquire(ctx, r.View)
			if err != nil {
				return nil, err
			}
			defer release()
			unload, err := cfg.Budget.Carry(r.Payer, len(r.Arguments)+len(r.InputResponses)+len(r.RequestState))
			if err != nil {
				return nil, err
			}
			defer unload()
			return next(ctx, r)
		}
	}
}

// Hold opens an account for the results of a request that a client makes. Doors
// release it when the answer is written, or nobody waits for it.
func (g *Gateway) Hold(ctx context.Context) (_ context.Context, release func()) {
	return g.cfg.Budget.Open(ctx, g.cfg.Budget.MaxRequest())
}

// HoldAny is Hold for requests that are answered bit by bit, however much that is
// in all; each bit is a budget.Part.
func (g *Gateway) HoldAny(ctx context.Context) (_ context.Context, release func()) {
	return g.cfg.Budget.Open(ctx, 0)
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
func (l *InFlight) Acquire(context.Context, View) (func(), error) {
	if l.current.Add(1) > l.limit {
		l.current.Add(-1)
		e := fault.New(fault.Overloaded, "the edge carries %d calls already; try again shortly", l.limit)
		e.RetryAfter = time.Second
		return nil, e
	}
	return l.release, nil
}
