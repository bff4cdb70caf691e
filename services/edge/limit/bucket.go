package limit

import "time"

// bucket has the tokens of one rate at this edge. Tokens come at the rate of the
// edge's share, and are as many as its share of the burst.
type bucket struct {
	counter
	share  float64
	tokens float64
	at     time.Duration // tokens are those of then

	// loan are tokens of other edges for which there is no room: they go soon.
	loan      float64
	loanUntil time.Duration
}

// whole is a token, as well as adding fractions tells.
const whole = 1 - 1e-9

// newBucket is one of a key that was not used, as far as this edge knows: what
// has come since the edge has its share is there.
func newBucket(k key) *bucket { return &bucket{counter: counter{key: k, hash: k.hash()}} }

func (b *bucket) base() *counter { return &b.counter }

// settle brings tokens up to now.
func (b *bucket) settle(s *holdings, now time.Duration) {
	if b.period != s.latest {
		b.enter(s)
	}
	b.accrue(now)
}

// enter goes through the epochs since the bucket was used last.
func (b *bucket) enter(s *holdings) {
	b.others.pauseUntil = 0 // others have tokens now
	first := s.latest + 1 - uint64(len(s.periods))
	if b.period == 0 || b.period < first {
		// Whatever there was at the beginning of what is remembered is gone.
		b.tokens, b.share, b.at, b.period = 0, 0, s.periods[0].since, first-1
	}
	for ; b.period < s.latest; b.period++ {
		e := s.periods[b.period+1-first]
		b.accrue(e.since)
		b.share = e.share(s.self, b.hash, b.key.limit.Rate.burst())
		b.tokens = min(b.tokens, b.capacity())
	}
}

func (b *bucket) accrue(now time.Duration) {
	if now <= b.at {
		return
	}
	b.tokens = min(b.capacity(), b.tokens+float64(now-b.at)*b.speed())
	b.at = now
}

// room is how many tokens there may be at this edge, speed how many come in a
// nanosecond.
func (b *bucket) capacity() float64 { return b.share * b.key.limit.Rate.burst() }
func (b *bucket) speed() float64    { return b.share * b.key.limit.Rate.perNano() }

func (b *bucket) take(s *holdings, now time.Duration) (ok bool, wait time.Duration) {
	b.settle(s, now)
	switch {
	case b.loan >= whole && now < b.loanUntil:
		b.loan--
	case b.tokens >= whole:
		b.tokens = max(0, b.tokens-1)
	default:
		return false, b.until(1)
	}
	return true, 0
}

// until is how long it is until the bucket has so many tokens; 0 for never.
func (b *bucket) until(tokens float64) time.Duration {
	if b.share == 0 {
		return 0
	}
	return max(1, time.Duration((tokens-b.tokens)/b.speed()))
}

// putBack gives back a token that was not used.
func (b *bucket) putBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.capacity(), b.tokens+1)
}

// lend gives up to want whole tokens to another edge. It gives none while it has
// less than a quarter of what it may have: edges that are all in want would
// only move drops. wait is how long it takes until it gives some.
func (b *bucket) lend(want float64) (given int, wait time.Duration) {
	least := max(1, b.capacity()/4)
	if b.tokens < least-1e-9 {
		return 0, b.until(least)
	}
	given = int(min(want, b.tokens+1e-9))
	b.tokens = max(0, b.tokens-float64(given))
	return given, 0
}

// want is what there is room for, and at least what calls wait for.
func (b *bucket) want(_ string, calls int) int { return max(calls, int(b.capacity()-b.tokens)) }

// credit: what there is no room for is good for the calls that wait, and then lost.
// What was on its way for too long is lost too.
func (b *bucket) credit(_ string, given int, begin, now time.Duration) bool {
	if given == 0 || now >= begin+askTime {
		return false
	}
	kept := max(0, min(float64(given), b.capacity()-b.tokens))
	b.tokens += kept
	b.loan, b.loanUntil = float64(given)-kept, begin+askTime
	return true
}

func (b *bucket) unused(s *holdings, now time.Duration) float64 {
	b.settle(s, now)
	if b.share == 0 {
		return 1 // another edge counts
	}
	return b.tokens / b.capacity()
}
