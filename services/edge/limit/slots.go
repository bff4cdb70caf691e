package limit

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// loan is how long slots count as lent without a message from the borrower, which sends one
	// every second. Without an answer, the borrower begins no calls with them after loanUsed. It
	// still asks for them until loanLost.
	loan     = 10 * time.Second
	loanUsed = 8 * time.Second
	loanLost = 12 * time.Second
	// freed is when to come back if all slots are taken: nobody knows when one becomes free.
	freed = 250 * time.Millisecond
)

// slots are the calls of one key that may be in flight at this edge: its share of the limit, and
// the slots that other edges lend it.
type slots struct {
	counter
	share   int
	running int
	// lent and borrowed are slots, by the edge that has borrowed or lent them.
	lent, borrowed map[string]loaned
}

// loaned is a number of slots, and when that was last confirmed.
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
			if !s.view().has(edge) { // the remaining edges have its share
				delete(p.borrowed, edge)
			}
		}
	}
	return p.share - total(p.lent, now, loan, loan) + total(p.borrowed, now, loanUsed, loanLost) - p.running
}

// total counts the loans that are valid, and forgets those that are lost.
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

// release gives a slot back.
func (p *slots) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}

// lend raises the slots that an edge has borrowed up to want, and returns how many it has now. At
// most half of the free slots are added. Borrowed slots are not lent on: if their lender took
// them back, this edge would have less than nothing.
func (p *slots) lend(s *holdings, edge string, want int, now time.Duration) int {
	free, has := p.free(s, now), p.lent[edge].n
	own := p.share - total(p.lent, now, loan, loan)
	n := min(want, has+(max(0, min(free, own))+1)/2)
	p.lent[edge] = loaned{n, now}
	return n
}

// want is how many slots of an edge to hold in all: a few more than are needed now, so that not
// every call asks.
func (p *slots) want(edge string, calls int) int {
	return p.borrowed[edge].n + max(calls, p.key.limit.Concurrent/16)
}

func (p *slots) credit(edge string, given int, begin, _ time.Duration) bool {
	before := p.borrowed[edge].n
	p.borrowed[edge] = loaned{given, begin}
	return given > before
}

// keep is how many slots of an edge to hold from now on: unused ones go back.
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

// owe puts slots among those whose loans are renewed.
func (l *Limiter) owe(p *slots) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.debts[p] = struct{}{}
}

// renew tells other edges which of their slots this one still holds.
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
