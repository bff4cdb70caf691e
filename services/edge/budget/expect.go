package budget

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
)

// Nobody knows the size of a result before it is made, so the edge expects what the
// tool's recent results lead to expect; instances do the same (ADR 0095). A call whose
// result will be large begins only if there is room for it, and until the result is here,
// later calls find that much less room. Results that have arrived are counted themselves:
// expected bytes never refuse a result.

// maxWait is how long a call that is about to begin waits for room: an instance holds a slot
// for it.
const maxWait = 500 * time.Millisecond

// waiters is how many calls may wait, half of them of one party, so that a party whose
// results nobody reads leaves room to wait for others.
var waiters = share.Rule{Whole: 64, Most: 32}

// Source is the origin of results: a tool, prompt or resource of a service.
type Source struct{ Service, Method, Name string }

// expecting is a group of expected results: of one party, by calls of one depth. A call
// therefore never waits for room that the calls above it expect.
type expecting struct {
	party string
	depth uint32
}

// Result is the room for the result of one call. The zero value has no bound.
type Result struct {
	account *Meter
	who     expecting
	size    int64 // expected size, from its source
	left    int64 // bytes that are expected and have not arrived
	arrived int64
	known   bool // the source had large results lately
	// tooLarge is set if the bytes that arrived have no room even at an idle edge.
	tooLarge bool
}

// Await is For, and prepares r for the result of a call. It reports whether the result
// will be large, judging by the source's recent results: such a call begins only once
// Expect has made room. Call Done when the call is over.
func (a *Meter) Await(r *Result, party string, depth uint32, of Source) (large bool) {
	*r = Result{account: a, who: expecting{party, depth}}
	if a == nil {
		return false
	}
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.moveTo(party)
	r.size, r.known = b.sizes.Of(of, party)
	return r.size > small
}

// Expect makes room for a large result, once; it waits a moment for room. The error is a
// *fault.Error that says that the call did not run: with reason ResultTooLarge if the
// request has no room for it beside its other results, Overloaded if the edge has none.
// An idle edge has room for one result, however large the results before it were.
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
		if over || !fault.Is(err, fault.Overloaded) || !b.waiting.Take(waiters, r.who.party, 1) {
			return err
		}
		if b.freed == nil {
			b.freed, b.since = make(chan struct{}), 0
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-late.C:
			over = true // small results may have made room without waking anybody
		case <-ctx.Done():
			b.mu.Lock()
			b.waiting.Add(r.who.party, -1)
			return err
		}
		b.mu.Lock()
		b.waiting.Add(r.who.party, -1)
	}
}

// free notes that n more bytes are free. It wakes the calls that wait for room, but not
// after each small result: there are many of those, and they do not help a large one.
func (b *Budget) free(n int64) {
	if b.since += n; b.freed != nil && b.since > small {
		close(b.freed)
		b.freed = nil
	}
}

// fit makes room for the result if there is some.
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
	if !b.large.Allows(b.held.All()+b.expectedAt.Of(r.who.depth), b.held.Of(a.party)+b.expectedBy.Of(r.who), n) {
		return noRoom(fault.No)
	}
	r.expect(n)
	return nil
}

// expect adds n to the bytes that are expected; n may be negative.
func (r *Result) expect(n int64) {
	if n == 0 {
		return
	}
	b := r.account.budget
	r.left += n
	r.account.root().expected += n
	b.expectedAt.Add(r.who.depth, n)
	b.expectedBy.Add(r.who, n)
}

// Take is Meter.Take for a part of this result. If a result does not fit even at an idle
// edge, the reason is ResultTooLarge.
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

// Done ends the expectation, and records that the call had a result of size bytes; 0 for
// a call without one. If the result was too large, the bytes that arrived are recorded. A
// result that found the edge full says nothing about the next one.
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
	if mean, _ := b.sizes.Of(of, r.who.party); n == 0 || r.tooLarge && n < mean {
		return
	}
	b.sizes.Note(of, r.who.party, n)
}
