package budget

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Nobody knows the size of a result before it is made, so the results that a tool had
// lately say what the next one needs, as they do at an instance (ADR 0095). A call whose
// result will be large begins only if there is room for that; until the result is here,
// the calls after it find that much less. What has arrived counts by itself: expected
// bytes never refuse a result.

const (
	// maxSources is how many tools, prompts and resources with large results an edge
	// remembers, and maxPartiesOf how many parties for each.
	maxSources   = 1024
	maxPartiesOf = 64
	// maxWait is how long a call that is about to begin waits for room: an instance holds
	// a slot for it. maxWaiting is how many do, and maxWaitingOf how many of one party, so
	// that one whose results nobody reads leaves places to others.
	maxWait      = 500 * time.Millisecond
	maxWaiting   = 64
	maxWaitingOf = maxWaiting / 2
)

// Source is where results come from: a tool, prompt or resource of a service.
type Source struct{ Service, Method, Name string }

// means are the sizes of a source's results, in bytes: the mean of all, and of those of
// each party. Each new result counts half.
type means struct {
	all   int64
	party map[string]int64
}

// expecting is who expects results: a party, by calls of one depth. So no call waits
// for room that those above it expect.
type expecting struct {
	party string
	depth uint32
}

// Result is the room of the result of one call. The zero value has no bound.
type Result struct {
	account *Meter
	who     expecting
	size    int64 // what its source leads to expect
	left    int64 // what is expected and has not arrived
	arrived int64
	known   bool // the source had large results lately
	// tooLarge says that what arrived was more than has room even at an idle edge.
	tooLarge bool
}

// Await is For, and has r take the result of a call. It reports whether that will be
// large, by the results that its source had lately: such a call begins only once Expect
// has made room. Done has to be called when the call is over.
func (a *Meter) Await(r *Result, party string, depth uint32, of Source) (large bool) {
	*r = Result{account: a, who: expecting{party, depth}}
	if a == nil {
		return false
	}
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.moveTo(party)
	r.size, r.known = b.expects(of, party)
	return r.size > small
}

// Expect makes room for a large result, once; it waits a moment for that. The error is a
// *fault.Error that says that the call did not run: with reason ResultTooLarge if the
// request has no room for it beside its other results, Overloaded if the edge has none.
// One result has room at an edge that is idle, however large those before it were.
func (r *Result) Expect(ctx context.Context) error {
	if r.account == nil {
		return nil
	}
	b := r.account.budget
	late := time.NewTimer(maxWait)
	defer late.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	for over := false; ; {
		err := r.fit()
		if over || !fault.Is(err, fault.Overloaded) || b.waiting >= maxWaiting || b.waitingOf[r.who.party] >= maxWaitingOf {
			return err
		}
		if b.freed == nil {
			b.freed, b.since = make(chan struct{}), 0
		}
		freed := b.freed
		b.wait(r.who.party, 1)
		b.mu.Unlock()
		select {
		case <-freed:
		case <-late.C:
			over = true // small results may have made room that nobody was woken for
		case <-ctx.Done():
			b.mu.Lock()
			b.wait(r.who.party, -1)
			return err
		}
		b.mu.Lock()
		b.wait(r.who.party, -1)
	}
}

// wait counts n calls more, or fewer, of a party that wait for room.
func (b *Budget) wait(party string, n int) {
	b.waiting += n
	if b.waitingOf[party] += n; b.waitingOf[party] == 0 {
		delete(b.waitingOf, party)
	}
}

// free notes that there is room for n bytes more. It wakes the calls that wait for that,
// but not for each small result: those are many, and help no large one.
func (b *Budget) free(n int64) {
	if b.since += n; b.freed != nil && b.since > small {
		close(b.freed)
		b.freed = nil
	}
}

// fit makes room if there is some.
func (r *Result) fit() error {
	a := r.account
	b := a.budget
	if r.left > 0 || r.size <= small {
		return nil
	}
	n := min(r.size, b.limit/2)
	if root := a.root(); root.max > 0 {
		n = min(n, root.max)
		if others := root.taken + root.expected; others > 0 && others+n > root.max {
			return tooLarge(root.max).Ran(fault.No)
		}
	}
	if b.held+b.expectedAt[r.who.depth]+n > b.limit/4*3 || b.parties[a.party]+b.expectedBy[r.who]+n > b.limit/2 {
		return noRoom(fault.No)
	}
	r.expect(n)
	return nil
}

// expect counts n bytes more, or fewer, that are expected.
func (r *Result) expect(n int64) {
	if n == 0 {
		return
	}
	b := r.account.budget
	r.left += n
	r.account.root().expected += n
	b.expected += n
	if b.expectedAt[r.who.depth] += n; b.expectedAt[r.who.depth] == 0 {
		delete(b.expectedAt, r.who.depth)
	}
	if b.expectedBy[r.who] += n; b.expectedBy[r.who] == 0 {
		delete(b.expectedBy, r.who)
	}
}

// Take is Account.Take for a part of this result. A result that has no room even at an
// idle edge is ResultTooLarge.
func (r *Result) Take(n int) error {
	a := r.account
	if a == nil {
		return nil
	}
	b, size := a.budget, int64(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if r.arrived += size; r.arrived <= b.limit/2 {
		err = a.take(size)
	} else {
		err = fault.New(fault.ResultTooLarge, "the result has more than the %d bytes that an edge holds for one caller", b.limit/2).Ran(fault.Yes)
	}
	if err == nil {
		r.expect(-min(size, r.left))
	} else {
		r.tooLarge = fault.Is(err, fault.ResultTooLarge)
	}
	return err
}

// Done ends what is expected, and notes that the call had a result of size bytes; 0 for a
// call without one. If the result was too large, the bytes that arrived are noted. A result
// that found the edge full says nothing of the next.
func (r *Result) Done(of Source, size int) {
	n := int64(size)
	if r.tooLarge {
		n = r.arrived
	}
	if r.account == nil || !r.known && n <= small {
		return
	}
	b := r.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := r.left; left > 0 {
		r.expect(-left)
		b.free(left)
	}
	if mean, _ := b.expects(of, r.who.party); n == 0 || r.tooLarge && n < mean {
		return
	}
	b.note(of, r.who.party, n)
}

// expects is the size of the next result of a source for a party, and whether results
// of the source were large lately. A party's own results say more than those of others.
func (b *Budget) expects(of Source, party string) (n int64, known bool) {
	m := b.sources[of]
	if m == nil {
		return 0, false
	}
	if n, own := m.party[party]; own {
		return n, true
	}
	return m.all, true
}

// note takes the means of a source half way to the size of a result.
func (b *Budget) note(of Source, party string, n int64) {
	m := b.sources[of]
	if m == nil {
		if n <= small {
			return
		}
		if len(b.sources) >= maxSources {
			forgetAny(b.sources)
		}
		m = &means{all: n, party: map[string]int64{}}
		b.sources[of] = m
	}
	if m.all = (m.all + n) / 2; m.all <= small {
		delete(b.sources, of)
		return
	}
	own, known := m.party[party]
	if !known {
		if own = n; len(m.party) >= maxPartiesOf {
			forgetAny(m.party)
		}
	}
	m.party[party] = (own + n) / 2
}

// forgetAny makes room for one more.
func forgetAny[K comparable, V any](m map[K]V) {
	for one := range m {
		delete(m, one)
		return
	}
}
