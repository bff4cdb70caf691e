package limit

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// loan is how long places count as lent without a word of the edge that has them,
	// which says so every second. Without an answer that edge begins no calls with
	// them after loanUsed; it asks for them still until loanLost.
	loan     = 10 * time.Second
	loanUsed = 8 * time.Second
	loanLost = 12 * time.Second
	// freed is when to come back where all places are taken: nobody knows.
	freed = 250 * time.Millisecond
)

// places are the calls of one key that may be in flight at this edge: its share
// of all, and what other edges lend it.
type slots struct {
	counter
	share   int
	running int
	// lent and borrowed are places, by the edge that has them or has given them.
	lent, borrowed map[string]loaned
}

// loaned are some places, and when that was last said.
type loaned struct {
	n     int
	heard time.Duration
}

func newSlots(k key) *slots {
	return &slots{counter: counter{key: k, hash: k.hash()}, lent: map[string]loaned{}, borrowed: map[string]loaned{}}
}

func (p *slots) base() *counter { return &p.counter }

// free is how many more calls may be in flight.
func (p *slots) free(s *holdings, now time.Duration) int {
	if p.period != s.latest {
		e := s.periods[len(s.periods)-1]
		p.share, p.period, p.others.pauseUntil = e.slots(s.self, p.hash, p.key.limit.Concurrent), s.latest, 0
		for edge := range p.borrowed {
			if !s.view().has(edge) { // the rest will have its share
				delete(p.borrowed, edge)
			}
		}
	}
	return p.share - total(p.lent, now, loan, loan) + total(p.borrowed, now, loanUsed, loanLost) - p.running
}

// total counts the loans that are good, and forgets those that are lost.
func total(loans map[string]loaned, now, good, lost time.Duration) (n int) {
	for edge, l := range loans {
		switch age := now - l.heard; {
		case age > lost || l.n == 0:
			delete(loans, edge)
		case age <= good:
			n += l.n
		}
	}
	return n
}

func (p *slots) take(s *holdings, now time.Duration) (ok bool, wait time.Duration) {
	if p.free(s, now) <= 0 {
		return false, freed
	}
	p.running++
	return true, 0
}

// release gives a place back.
func (p *slots) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}

// lend lets an edge have so many places in all, half of what is free at most of
// what it does not have yet, and returns how many it has. What others have lent is
// not lent again: who loses it would have less than nothing.
func (p *slots) lend(s *holdings, edge string, want int, now time.Duration) int {
	free, has := p.free(s, now), p.lent[edge].n
	own := p.share - total(p.lent, now, loan, loan)
	n := min(want, has+(max(0, min(free, own))+1)/2)
	p.lent[edge] = loaned{n, now}
	return n
}

// want is what to have of an edge in all: a few more, so that not each call asks.
func (p *slots) want(edge string, calls int) int {
	return p.borrowed[edge].n + max(calls, p.key.limit.Concurrent/16)
}

func (p *slots) credit(edge string, given int, begin, _ time.Duration) bool {
	before := p.borrowed[edge].n
	p.borrowed[edge] = loaned{given, begin}
	return given > before
}

// keep is what to have of an edge from now on: what is not in use goes back.
func (p *slots) keep(s *holdings, edge string, now time.Duration) int {
	return max(0, p.borrowed[edge].n-max(0, p.free(s, now)))
}

func (p *slots) unused(s *holdings, now time.Duration) float64 {
	p.free(s, now)
	if p.running > 0 || len(p.lent) > 0 || len(p.borrowed) > 0 {
		return -1
	}
	return 1
}

// owe has the loans of places renewed.
func (l *Limiter) owe(p *slots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debts[p] = struct{}{}
}

// renew says to other edges which of their places this one still has.
func (l *Limiter) renew(ctx context.Context) {
	l.mu.Lock()
	debts := slices.Collect(maps.Keys(l.debts))
	l.mu.Unlock()
	for _, p := range debts {
		l.settleDebts(ctx, p)
	}
}

func (l *Limiter) settleDebts(ctx context.Context, p *slots) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.others.asking != nil {
		return // the next time
	}
	answered := make(chan struct{})
	p.others.asking = answered
	for _, edge := range slices.Sorted(maps.Keys(p.borrowed)) {
		keep := p.keep(l.members.holdings.Load(), edge, l.now())
		had := p.borrowed[edge]
		p.borrowed[edge] = loaned{keep, had.heard}
		r, begin := p.key.request(l.members.self, keep), l.now()
		p.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, askTime)
		got := l.ask(bounded, edge, r)
		cancel()
		p.mu.Lock()
		if got != nil {
			p.credit(edge, int(min(got.Given, maxCount)), begin, 0)
		}
	}
	p.others.asking = nil
	close(answered)
	if total(p.borrowed, l.now(), loanUsed, loanLost); len(p.borrowed) == 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.debts, p)
	}
}
