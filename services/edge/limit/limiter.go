package limit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Applied are the limits of one call.
type Applied struct {
	Principal, Tenant, Tool Limits
	// Rule names the rule that Tool is of: calls of all tools that it holds for are
	// counted together, whoever makes them.
	Rule string
}

// Rules say which limits hold. Their word costs a lock and an allocation less if
// it is a value that was made before.
type Rules interface {
	// Limits returns those of a call. Where the call has no target, it asks for those
	// of its principal and tenant. It is called for each call, and must not block.
	Limits(v gateway.View) Applied
}

// Config says what a Limiter works with.
type Config struct {
	Rules Rules
	// Next admits calls that are within their limits.
	Next gateway.Limiter
	// Edge is this edge's name on the bus, and Store and Peers are how it shares the
	// limits with others.
	Edge  string
	Store Store
	Peers Peers
	// Guest leaves all tokens to the other edges and asks them each time.
	Guest  bool
	Logger *slog.Logger

	now func() time.Duration // for tests
}

// Limiter is a gateway.Limiter that holds the limits of all edges together.
type Limiter struct {
	rules   Rules
	next    gateway.Limiter
	peers   Peers
	log     *slog.Logger
	now     func() time.Duration
	members *membership
	rates   *keys[*bucket]
	slots   *keys[*slots]
	silent  sync.Map // edges that did not answer: until when they are not asked

	mu    sync.Mutex
	debts map[*slots]struct{} // with places of other edges

	end  context.CancelFunc
	done sync.WaitGroup
}

// New makes a Limiter and joins the edges that share the limits. Close it before
// the bus is left.
func New(ctx context.Context, cfg Config) *Limiter {
	l := newLimiter(cfg)
	l.tick(ctx)
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	l.done.Go(func() { every(running, l.tick) })
	l.done.Go(func() { every(running, l.renew) })
	return l
}

func newLimiter(cfg Config) *Limiter {
	if cfg.now == nil {
		begin := time.Now()
		cfg.now = func() time.Duration { return time.Since(begin) }
	}
	return &Limiter{
		rules: cfg.Rules, next: cfg.Next, peers: cfg.Peers, log: cfg.Logger, now: cfg.now,
		members: newMembership(cfg.Edge, cfg.Guest, cfg.Store, cfg.now), rates: newKeys(newBucket), slots: newKeys(newSlots), debts: map[*slots]struct{}{},
	}
}

// every calls f once in beatEvery until ctx ends.
func every(ctx context.Context, f func(context.Context)) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			f(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Close gives this edge's part of the limits to the others.
func (l *Limiter) Close() {
	l.end()
	l.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.members.leave(ctx); err != nil {
		l.log.Debug("the other edges do not know that this one leaves its part of the limits; they take it when its lease is over", "error", err)
	}
}

func (l *Limiter) tick(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	if err := l.members.tick(ctx); err != nil && ctx.Err() == nil {
		l.log.Warn("this edge could not renew its part of the limits", "error", err, "over", !l.members.leased(l.now()))
	}
}

// Acquire implements gateway.Limiter. It waits only for other edges that are
// asked for tokens, 0.1 s for each limit at most.
func (l *Limiter) Acquire(ctx context.Context, v gateway.View) (release func(), err error) {
	release, err = l.next.Acquire(ctx, v)
	if err != nil {
		return nil, err
	}
	a := l.rules.Limits(v)
	if a == (Applied{}) || v.Method == gateway.MethodLimits {
		return release, nil
	}
	held, err := l.admit(ctx, v.Principal, a)
	if err != nil {
		release()
		return nil, err
	}
	if held == nil {
		return release, nil
	}
	return held.and(release), nil
}

// taken is what a call has of each limit: nil for none.
type taken struct {
	slots   [3]*slots
	buckets [3]*bucket
}

func (t *taken) release() {
	for _, p := range t.slots {
		if p != nil {
			p.release()
		}
	}
}

// and releases what a call has before the rest.
func (t *taken) and(rest func()) func() { return func() { t.release(); rest() } }

// undo gives everything back.
func (t *taken) undo() {
	t.release()
	for _, b := range t.buckets {
		if b != nil {
			b.putBack()
		}
	}
}

// admit takes a token of each limit, or of none. held is what has to be released
// when the call has ended; nil for nothing.
func (l *Limiter) admit(ctx context.Context, p gateway.Principal, a Applied) (held *taken, err error) {
	if !l.members.leased(l.now()) {
		e := fault.New(fault.Unavailable, "this edge does not reach the others with which it shares the limits; try again shortly, or at another one")
		e.RetryAfter = beatEvery
		return nil, e
	}
	var t taken
	parties := a.parties(p)
	for i, one := range parties {
		if one.Concurrent == 0 {
			continue
		}
		k := one.key
		k.limit.Concurrent = one.Concurrent
		of, ok, wait := take(ctx, l, l.slots, k)
		if !ok {
			t.undo()
			return nil, tooMany(k, wait)
		}
		t.slots[i] = of
	}
	for i, one := range parties {
		if one.Rate == (Rate{}) {
			continue
		}
		k := one.key
		k.limit.Rate = one.Rate
		of, ok, wait := take(ctx, l, l.rates, k)
		if !ok {
			t.undo()
			return nil, tooMany(k, wait)
		}
		t.buckets[i] = of
	}
	if t.slots == ([3]*slots{}) {
		return nil, nil
	}
	return &taken{slots: t.slots}, nil
}

// parties are who and what a call is counted for.
func (a *Applied) parties(p gateway.Principal) [3]struct {
	key
	Limits
} {
	return [3]struct {
		key
		Limits
	}{
		{key{scope: OfPrincipal, tenant: p.Tenant, name: p.Name}, a.Principal},
		{key{scope: OfTenant, tenant: p.Tenant}, a.Tenant},
		{key{scope: OfTool, name: a.Rule}, a.Tool},
	}
}

// tooMany says which limit is reached, and of nobody else anything.
func tooMany(k key, wait time.Duration) error {
	e := fault.New(fault.RateLimited, "the limit of %s is reached: %s", k.words(), k.limit)
	e.RetryAfter = max(time.Millisecond, wait)
	return e
}
