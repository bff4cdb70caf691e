package limit

import (
	"strconv"
	"sync"
	"time"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
)

// Scope says what a limit is of.
type Scope uint8

// The scopes. A call is counted for all that apply.
const (
	OfPrincipal Scope = iota + 1
	OfTenant
	OfTool
)

// String is the scope in a word.
func (s Scope) String() string { return [...]string{"", "principal", "tenant", "tool"}[s] }

// key names what is counted: one limit, which is a rate or a number of calls at
// once, of one party or rule. The limit is part of it: where it is changed, counting
// begins again, and edges that have the old one still do not confuse the two.
type key struct {
	scope        Scope
	tenant, name string
	limit        Limits
}

// valid reports whether another edge may name the key.
func (k key) valid() bool {
	r, n := k.limit.Rate, k.limit.Concurrent
	rate := r.Count > 0 && r.Count <= maxCount && r.Per > 0
	return k.scope >= OfPrincipal && k.scope <= OfTool && (rate && n == 0 || r == (Rate{}) && n > 0 && n <= maxCount)
}

// words name the key to whom a call of it is refused.
func (k key) words() string {
	switch k.scope {
	case OfPrincipal:
		return "the principal " + strconv.Quote(k.name)
	case OfTenant:
		return "the tenant " + strconv.Quote(k.tenant)
	}
	return "tools " + strconv.Quote(k.name)
}

// hash is the same at every edge.
func (k key) hash() uint64 {
	h := hashed(hashBegin, string(rune(k.scope)))
	h = hashed(h, k.tenant)
	return hashed(h, k.name)
}

// tokens is how many there are at most, at all edges together.
func (k key) tokens() float64 {
	if k.limit.Concurrent > 0 {
		return float64(k.limit.Concurrent)
	}
	return k.limit.Rate.burst()
}

// request asks for tokens of the key, on behalf of an edge.
func (k key) request(edge string, want int) *edgev1.TokenRequest {
	return &edgev1.TokenRequest{
		Scope: uint32(k.scope), Tenant: k.tenant, Name: k.name, Want: uint64(want), Edge: edge,
		Count: uint64(k.limit.Rate.Count), PerNanos: uint64(k.limit.Rate.Per), Concurrent: uint64(k.limit.Concurrent),
	}
}

// keyOf is the key of a request.
func keyOf(r *edgev1.TokenRequest) (key, bool) {
	k := key{Scope(min(r.Scope, 255)), r.Tenant, r.Name, Limits{
		Rate:       Rate{int(min(r.Count, maxCount+1)), time.Duration(min(r.PerNanos, uint64(ever)))},
		Concurrent: int(min(r.Concurrent, maxCount+1)),
	}}
	return k, k.valid()
}

// counter is what all that is counted has: a key, and the edge's share of it.
type counter struct {
	key  key
	hash uint64

	mu sync.Mutex
	// epoch is the one that the share is of.
	period uint64
	others others
	// gone says that the key has another counter by now, or none.
	gone bool
}

// others is what a counter knows of other edges.
type others struct {
	// asking is closed when the edges that are being asked have answered; nil while
	// none is.
	asking chan struct{}
	// waiters are the calls that wait for that.
	waiters int
	// pauseUntil is when to ask again, and pause how long that is.
	pauseUntil, pause time.Duration
	// ready is when one of them will have tokens; 0 is unknown.
	ready time.Duration
	// turn is which of the others is asked first.
	turn int
}

// counted is a bucket or places. Callers of its methods have its lock.
type counted interface {
	base() *counter
	// take takes a token, or says how long it is until one comes by itself; 0 for
	// never.
	take(s *holdings, now time.Duration) (ok bool, wait time.Duration)
	// want is what is asked of an edge, for so many calls that wait.
	want(edge string, calls int) int
	// credit takes in what an edge has given since begin, if it is anything.
	credit(edge string, given int, begin, now time.Duration) bool
	// unused is which part of its tokens it has; less than none where it is in use.
	unused(s *holdings, now time.Duration) float64
}
