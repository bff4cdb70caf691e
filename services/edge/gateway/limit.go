package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
)

// Limiter protects the edge and the services behind it.
type Limiter interface {
	// Acquire admits a call and returns the function that releases its slot, or a *fault.Error
	// with reason RateLimited or Overloaded. It must not block.
	Acquire(ctx context.Context, v View) (release func(), err error)
}

// limit bounds the calls in flight, and the bytes they have brought, for all callers together and
// for each account.
func limit(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			release, err := cfg.Limiter.Acquire(ctx, r.View)
			if err != nil {
				return nil, err
			}
			defer release()
			unload, err := cfg.Budget.Carry(r.Account, len(r.Arguments)+len(r.InputResponses)+len(r.RequestState))
			if err != nil {
				return nil, err
			}
			defer unload()
			return next(ctx, r)
		}
	}
}

// Track opens an account for the results of a client's request. Doors release it when the answer
// is written, or when nobody waits for it.
func (g *Gateway) Track(ctx context.Context) (_ context.Context, release func()) {
	return g.cfg.Budget.Open(ctx, g.cfg.Budget.MaxRequest())
}

// TrackAny is Track for requests that are answered part by part, without a bound on the whole;
// each part is a budget.Part.
func (g *Gateway) TrackAny(ctx context.Context) (_ context.Context, release func()) {
	return g.cfg.Budget.Open(ctx, 0)
}

// DefaultInFlight is how many concurrent calls one edge carries.
//
//limit:call calls in flight of an edge | `overloaded`
const DefaultInFlight = 10_000

// greed is how many calls of one tenant may be in flight for each free slot. A single tenant gets
// eight ninths of all slots. Two that want everything get eight seventeenths each. A tenant with
// few calls always finds a slot.
const greed = 8

// idleParties is how many tenants without calls in flight are remembered.
const idleParties = 1024

// InFlight is the Limiter that bounds the calls in flight and shares the slots between tenants. A
// principal without a tenant counts by itself.
type InFlight struct {
	rule share.Rule

	mu      sync.Mutex
	current int64
	parties map[string]*party
}

// party is the number of calls that a tenant has in flight.
type party struct {
	n       int64
	release func()
}

// NewInFlight returns a Limiter that admits n concurrent calls.
func NewInFlight(n int) *InFlight {
	return &InFlight{rule: share.Rule{Whole: int64(n), Free: greed}, parties: map[string]*party{}}
}

// Now is how many calls are in flight.
func (l *InFlight) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// Acquire implements Limiter.
func (l *InFlight) Acquire(_ context.Context, v View) (func(), error) {
	name := v.Principal.Tenant
	if name == "" {
		name = v.Account
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parties[name]
	if p == nil {
		p = l.party(name)
	}
	if !l.rule.Allows(l.current, p.n, 1) {
		e := fault.New(fault.Overloaded, "the edge is at its limit of concurrent calls; try again shortly")
		if l.current < l.rule.Whole {
			e = fault.New(fault.Overloaded, "%d of your calls are in progress and the edge is almost at its limit of concurrent calls; try again shortly", p.n)
		}
		e.RetryAfter = time.Second
		return nil, e
	}
	l.current++
	p.n++
	l.parties[name] = p
	return p.release, nil
}

// party is a party with nothing in flight.
func (l *InFlight) party(name string) *party {
	p := &party{}
	p.release = func() { l.release(name, p) }
	return p
}

func (l *InFlight) release(name string, p *party) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current--
	if p.n--; p.n == 0 && len(l.parties) > idleParties {
		delete(l.parties, name)
	}
}
