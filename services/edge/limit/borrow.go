package limit

import (
	"context"
	"time"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
)

const (
	// askTime is how long tokens may travel from one edge to another; those that arrive later are
	// lost.
	askTime = 100 * time.Millisecond
	// asked is how many edges are asked in a row.
	asked = 4
	// minPause and maxPause bound the pause after all edges have refused, unless they name a
	// longer one. It doubles each time.
	minPause, maxPause = 20 * time.Millisecond, time.Second
	// silence is how long an edge that did not answer is not asked again.
	silence = time.Second
	// maxWaiters bounds the calls that wait for tokens of one key.
	maxWaiters = 256
)

// Peers asks other edges for tokens.
type Peers interface {
	// Borrow asks one edge. It waits until ctx ends; an edge without a subscriber is an error at
	// once.
	Borrow(ctx context.Context, edge string, r *edgev1.TokenRequest) (*edgev1.Tokens, error)
}

// take takes a token of a key: this edge's own, or one of another edge. wait is when to come back
// without one.
//
// One call borrows for all: borrow asks the other holders of the key, one after the other and
// four at most, and concurrent calls of the same key wait for its result. After a round of
// refusals the edge pauses before it asks again, so that a flood at one edge does not become a
// flood on the bus. Tokens of a rate move for good, and are lost if they travel longer than
// askTime. Slots are lent, and the borrower renews them every second (slots.go). Lend is the
// other side.
func take[T counted](ctx context.Context, l *Limiter, ks *keys[T], k key) (from T, ok bool, wait time.Duration) {
	now, s := l.now(), l.members.holdings.Load()
	one := ks.get(k, s, now)
	ok, wait = one.take(s, now)
	if !ok {
		ok, wait = l.elsewhere(ctx, one, now, wait)
	}
	one.base().mu.Unlock()
	return one, ok, wait
}

// elsewhere gets a token from another edge, or waits with the calls that already wait for one.
// The caller holds the lock.
func (l *Limiter) elsewhere(ctx context.Context, one counted, now, wait time.Duration) (ok bool, _ time.Duration) {
	base := one.base()
	for range 2 {
		if base.others.pauseUntil > now {
			return false, base.wait(wait, now)
		}
		if base.others.asking == nil {
			l.borrow(ctx, one)
		} else if !base.await(ctx) {
			return false, base.wait(wait, now)
		}
		now = l.now()
		if ok, wait = one.take(l.members.holdings.Load(), now); ok {
			return true, 0
		}
	}
	return false, base.wait(wait, now)
}

// wait is when to come back: when a token comes here, or at the other edge that has one first. If
// neither time is known, it is maxPause.
func (c *counter) wait(here, now time.Duration) time.Duration {
	if wait := sooner(here, c.others.ready-now); wait > 0 {
		return wait
	}
	return maxPause
}

// await waits until the call that asks has its answer. It reports false if too many calls wait.
// The caller holds the lock, and holds it again afterwards.
func (c *counter) await(ctx context.Context) bool {
	if c.others.waiters >= maxWaiters {
		return false
	}
	c.others.waiters++
	answered := c.others.asking
	c.mu.Unlock()
	select {
	case <-answered:
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.others.waiters--
	return true
}

// sooner is the shorter of two durations, as far as they are known.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// borrow asks other edges for tokens, one after the other until one gives some. The caller holds
// the lock.
func (l *Limiter) borrow(ctx context.Context, one counted) {
	base := one.base()
	edges := l.members.holdings.Load().view().others(l.members.self, base.hash, base.key.tokens())
	answered := make(chan struct{})
	base.others.asking = answered
	begin, wait, given := l.now(), time.Duration(0), false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	for i := range min(asked, len(edges)) {
		edge := edges[(base.others.turn+i)%len(edges)]
		r := base.key.request(l.members.self, one.want(edge, 1+base.others.waiters))
		base.mu.Unlock()
		got := l.ask(ctx, edge, r)
		base.mu.Lock()
		if got == nil {
			continue
		}
		if now := l.now(); l.members.leased(now) && one.credit(edge, int(min(got.Given, maxCount)), begin, now) {
			given = true
			break // there may be more
		}
		wait = sooner(wait, time.Duration(min(got.WaitNanos, uint64(ever))))
	}
	base.others.asking = nil
	close(answered)
	if given {
		base.others.pause, base.others.pauseUntil = 0, 0
		if p, ok := one.(*slots); ok {
			l.owe(p)
		}
		return
	}
	base.others.turn += asked
	base.others.pause = min(max(minPause, 2*base.others.pause), maxPause)
	now := l.now()
	base.others.pauseUntil, base.others.ready = now+max(base.others.pause, wait), 0
	if wait > 0 {
		base.others.ready = now + wait
	}
}

// ask asks one edge; nil means that it does not answer.
func (l *Limiter) ask(ctx context.Context, edge string, r *edgev1.TokenRequest) *edgev1.Tokens {
	if until, silent := l.silent.Load(edge); silent && l.now() < until.(time.Duration) {
		return nil
	}
	got, err := l.peers.Borrow(ctx, edge, r)
	if err != nil {
		l.silent.Store(edge, l.now()+silence)
		return nil
	}
	return got
}

// Lend answers the request of another edge; nil means no answer.
func (l *Limiter) Lend(r *edgev1.TokenRequest) *edgev1.Tokens {
	k, ok := keyOf(r)
	now, st := l.now(), l.members.holdings.Load()
	if !ok || l.members.guest || !l.members.leased(now) {
		return nil
	}
	want := int(min(r.Want, maxCount))
	if k.limit.Concurrent > 0 {
		if !r.Look && !l.members.leased(now+loanUsed) {
			return nil // others might have them before the loan is over
		}
		p := l.slots.get(k, st, now)
		defer p.mu.Unlock()
		if r.Look {
			return &edgev1.Tokens{Left: float64(p.running)}
		}
		return &edgev1.Tokens{Given: uint64(p.lend(st, r.Edge, want, now))}
	}
	b := l.rates.get(k, st, now)
	defer b.mu.Unlock()
	b.settle(st, now)
	if r.Look {
		return &edgev1.Tokens{Left: b.tokens}
	}
	given, wait := b.lend(float64(want))
	return &edgev1.Tokens{Given: uint64(given), WaitNanos: uint64(wait)}
}
