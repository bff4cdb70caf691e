// Package budget bounds the bytes of results that an edge holds: from their arrival from
// the bus until their client has taken them. Without a bound, the slowest readers would
// decide how much memory an edge needs. A call whose result will be large begins only if
// there is room for it (expect.go).
//
// Bytes are counted once for each result, by its length; a door may have a second copy in
// another form for a moment. Start with Budget.Open and Meter.Take.
package budget

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
)

const (
	// DefaultLimit is the most that one edge holds, in bytes.
	//limit:call large results that an edge holds until clients have read them | `overloaded`
	DefaultLimit = 128 << 20
	// small is how much a part of a request may hold and still use the last quarter of
	// the budget: a caller that asks for little is not refused because others ask for
	// much.
	//limit:call a result counts as large if it is larger than
	small = 256 << 10
	// brief is how much a call may bring without being counted: the number of such calls
	// is limited elsewhere.
	brief = 4 << 10
)

// Budget is the room that the requests of one edge share.
type Budget struct {
	limit int64
	// any is the rule for results, and large the rule if their request holds more than small.
	// A party has at most half.
	any, large share.Rule

	mu   sync.Mutex
	held share.Pool[string] // bytes by party, in small results too

	// The bytes that calls under way are expected to bring, at each depth, and for each
	// party there; and the sizes of earlier results, on which the expectation rests.
	expectedAt share.Pool[uint32]
	expectedBy share.Pool[expecting]
	sizes      share.Sizes[Source]
	// The number of calls that wait for room, by party. freed is closed when there is more
	// room, nil if no call waits; since counts the bytes that became free meanwhile.
	waiting share.Pool[string]
	freed   chan struct{}
	since   int64

	carried share.Pool[string] // bytes that calls in flight have brought, by party; see Carry
}

// New makes a budget of limit bytes; 0 is DefaultLimit.
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Budget{
		limit: limit, any: share.Rule{Whole: limit, Most: limit / 2}, large: share.Rule{Whole: limit / 4 * 3, Most: limit / 2},
		sizes: share.Sizes[Source]{Large: small},
	}
}

// MaxRequest is how many bytes the results of one request may have together, if its
// answer is one value: a quarter of the limit, which has room for two of the largest
// results.
func (b *Budget) MaxRequest() int64 { return b.limit / 4 }

// Held is how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.All()
}

// Expected is how many bytes of large results calls under way are expected to bring.
func (b *Budget) Expected() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expectedAt.All()
}

// Meter is the account of one request. A nil Meter holds any amount.
type Meter struct {
	budget *Budget
	above  *Meter // of the request that this one is a part of
	max    int64  // limit of the total that it takes, 0 for none

	// All fields are guarded by the budget's lock.
	party    string
	held     int64
	taken    int64
	expected int64
	full     bool
	ended    bool
}

type key struct{}

// Open makes an account for everything that is done with the context it returns. max
// bounds the total that is taken, in bytes; 0 for no bound. release returns all bytes
// that the account holds; releasing again does nothing.
func (b *Budget) Open(ctx context.Context, max int64) (_ context.Context, release func()) {
	a := &Meter{budget: b, max: max}
	return context.WithValue(ctx, key{}, a), a.end
}

// Part makes an account for a part of the request whose account the context has, so that
// the part can be released before the rest. Its bytes count for the whole request.
// Without an account in ctx nothing is counted.
func Part(ctx context.Context) (_ context.Context, release func()) {
	above := From(ctx)
	if above == nil {
		return ctx, func() {}
	}
	a := &Meter{budget: above.budget, above: above}
	return context.WithValue(ctx, key{}, a), a.end
}

// From returns the account of a context, nil if it has none.
func From(ctx context.Context) *Meter {
	a, _ := ctx.Value(key{}).(*Meter)
	return a
}

// Full reports whether a result did not fit into the request's total. Calls of the
// request that have not begun need not begin then.
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

// For sets the party that the account counts for from now on; see gateway.Account.
func (a *Meter) For(party string) {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.moveTo(party)
}

func (a *Meter) moveTo(party string) {
	if a.held != 0 {
		a.budget.held.Add(a.party, -a.held)
		a.budget.held.Add(party, a.held)
	}
	a.party = party
}

// Take makes room for n bytes of a result that has arrived. The error is a *fault.Error
// that says that the call ran: with reason ResultTooLarge if the request has taken too
// much, Overloaded if the edge has no room.
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
	rule := b.any
	if a.held+size > small {
		rule = b.large
	}
	if !b.held.Take(rule, a.party, size) {
		return noRoom(fault.Yes)
	}
	a.held, root.taken = a.held+size, root.taken+size
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
	if a.held > 0 {
		b.held.Add(a.party, -a.held)
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

// NotBegun is the error of a call that does not begin because its request is full.
func (a *Meter) NotBegun() error { return tooLarge(a.root().max).Ran(fault.No) }

// Carry makes room for the n bytes that a call of a party has brought, until release,
// which is called once. All calls together have as much room as all results have, and a
// party half of it. The error is a *fault.Error with reason Overloaded.
func (b *Budget) Carry(party string, n int) (release func(), err error) {
	if n <= brief {
		return func() {}, nil
	}
	size := int64(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.carried.Take(b.any, party, size) {
		e := fault.New(fault.Overloaded, "the calls in flight have as many bytes as the edge takes; wait for an answer, and try again").Ran(fault.No)
		e.RetryAfter = time.Second
		return nil, e
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.carried.Add(party, -size)
	}, nil
}
