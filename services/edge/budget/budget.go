// Package budget bounds the bytes of results that an edge holds: from when they
// arrive from the bus until their client has taken them. Without a bound the
// memory of an edge is that of its slowest readers. A call whose result will be
// large begins only if there is room for it (expect.go).
//
// Bytes are counted once for each result, by its length; a door may have a second
// copy for a moment, in another form.
package budget

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// DefaultLimit is what one edge holds at most, in bytes.
	//limit:call large results that an edge holds until clients have read them | `overloaded`
	DefaultLimit = 128 << 20
	// small is what a part of a request may hold and still have the last quarter of
	// the budget: who asks for little is not refused because of others, who ask for
	// much.
	//limit:call a result counts as large if it is larger than
	small = 256 << 10
	// brief is what a call may bring without being counted: those that are have a
	// bound in number.
	brief = 4 << 10
)

// Budget is the room that the requests of one edge share.
type Budget struct {
	limit int64

	mu      sync.Mutex
	held    int64
	parties map[string]int64 // what each party holds, in small results too

	// What calls under way are expected to bring: in all, at each depth, and for each
	// party there; and the sizes of results that say so.
	expected   int64
	expectedAt map[uint32]int64
	expectedBy map[expecting]int64
	sources    map[Source]*means
	// How many calls wait for room, in all and by party. freed is closed when there is
	// more, nil if none waits; since counts the bytes that became free meanwhile.
	waiting   int
	waitingOf map[string]int
	freed     chan struct{}
	since     int64

	carried  int64            // what calls in flight have brought; see Carry
	carriers map[string]int64 // by party
}

// New makes a budget of limit bytes; 0 is DefaultLimit.
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Budget{
		limit: limit, parties: map[string]int64{}, carriers: map[string]int64{},
		expectedAt: map[uint32]int64{}, expectedBy: map[expecting]int64{}, sources: map[Source]*means{}, waitingOf: map[string]int{},
	}
}

// MaxRequest is what the results of one request may have together, where its
// answer is one value: a quarter of all, which has room for two of the largest.
func (b *Budget) MaxRequest() int64 { return b.limit / 4 }

// Held is how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Expected is how many bytes calls under way are expected to bring, of large results.
func (b *Budget) Expected() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expected
}

// Account is what one request holds. A nil account holds anything.
type Meter struct {
	budget *Budget
	above  *Meter // of the request that this one is a part of
	max    int64  // of what it takes in all, 0 for none

	// All of it is guarded by the budget's lock.
	party    string
	held     int64
	taken    int64
	expected int64
	full     bool
	ended    bool
}

type key struct{}

// Open makes an account for what is done with the context it returns. max bounds
// what is taken in all, in bytes; 0 for no bound. Release returns all that the
// account holds; releasing again does nothing.
func (b *Budget) Open(ctx context.Context, max int64) (_ context.Context, release func()) {
	a := &Meter{budget: b, max: max}
	return context.WithValue(ctx, key{}, a), a.end
}

// Part makes an account for a part of the request whose account the context has,
// so that what the part holds can be released before the rest. What it takes
// counts for the whole request. Without an account in ctx nothing is counted.
func Part(ctx context.Context) (_ context.Context, release func()) {
	above := From(ctx)
	if above == nil {
		return ctx, func() {}
	}
	a := &Meter{budget: above.budget, above: above}
	return context.WithValue(ctx, key{}, a), a.end
}

// Of returns the account of a context, nil if it has none.
func From(ctx context.Context) *Meter {
	a, _ := ctx.Value(key{}).(*Meter)
	return a
}

// Full reports whether a result did not fit into what the request may take in
// all. What has not begun need not begin then.
func (a *Meter) Full() bool {
	if a == nil {
		return false
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.root().full
}

func (a *Meter) root() *Meter {
	for a.above != nil {
		a = a.above
	}
	return a
}

// For says which party the account counts for from now on; see gateway.Account.
func (a *Meter) For(party string) {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.moveTo(party)
}

func (a *Meter) moveTo(party string) {
	a.budget.count(a.party, -a.held)
	a.party = party
	a.budget.count(a.party, a.held)
}

// count adds n bytes to what a party holds.
func (b *Budget) count(party string, n int64) {
	if b.parties[party] += n; b.parties[party] == 0 {
		delete(b.parties, party)
	}
}

// Take makes room for n bytes of a result that has arrived. The error is a
// *fault.Error that says that the call ran: with reason ResultTooLarge when the
// request has taken too much, Overloaded when there is no room at the edge.
func (a *Meter) Take(n int) error {
	if a == nil {
		return nil
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.take(int64(n))
}

func (a *Meter) take(size int64) error {
	b, root := a.budget, a.root()
	switch {
	case a.ended:
		return fault.New(fault.Cancelled, "nobody waits for the result any more")
	case root.max > 0 && root.taken+size > root.max:
		root.full = true
		return tooLarge(root.max).Ran(fault.Yes)
	}
	room := b.limit
	if a.held+size > small {
		room = b.limit / 4 * 3
	}
	if b.held+size > room || b.parties[a.party]+size > b.limit/2 {
		return noRoom(fault.Yes)
	}
	b.count(a.party, size)
	b.held, a.held, root.taken = b.held+size, a.held+size, root.taken+size
	return nil
}

func (a *Meter) end() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	b.count(a.party, -a.held)
	if a.held > 0 {
		b.held -= a.held
		b.free(a.held)
		a.held = 0
	}
}

func noRoom(executed fault.Executed) error {
	e := fault.New(fault.Overloaded, "too many results are under way or wait to be read; read some, then try again").Ran(executed)
	e.RetryAfter = time.Second
	return e
}

func tooLarge(max int64) *fault.Error {
	return fault.New(fault.ResultTooLarge, "the results of one request have at most %d bytes together", max)
}

// NotBegun refuses a call of a request that is full: nothing ran.
func (a *Meter) NotBegun() error { return tooLarge(a.root().max).Ran(fault.No) }

// Carry makes room for what a call of a party has brought, n bytes, until release,
// which is called once. All calls have as much room as all results have, and a
// party half of it. The error is a *fault.Error with reason Overloaded.
func (b *Budget) Carry(party string, n int) (release func(), err error) {
	if n <= brief {
		return func() {}, nil
	}
	size := int64(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.carried+size > b.limit || b.carriers[party]+size > b.limit/2 {
		e := fault.New(fault.Overloaded, "the calls in flight have as many bytes as the edge takes; wait for an answer, and try again").Ran(fault.No)
		e.RetryAfter = time.Second
		return nil, e
	}
	b.carried += size
	b.carriers[party] += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.carried -= size
		if b.carriers[party] -= size; b.carriers[party] == 0 {
			delete(b.carriers, party)
		}
	}, nil
}
