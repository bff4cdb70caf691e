package limit

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// These are rules that storms over all edges meet too rarely to notice them broken:
// six were broken by hand before there were tests for them, and none failed.

// among is what an edge has among some, all of whom it has known since the beginning.
func among(self string, ids ...string) *holdings {
	return &holdings{self: self, latest: 1, periods: []period{{views: []view{newView(1, ids)}}}}
}

var perSecond = key{OfPrincipal, "acme", "anna", Limits{Rate: Rate{Count: 10, Per: time.Second}}}

// Tokens that were on their way for longer than a request may take count twice
// elsewhere: they are lost.
func TestLateTokensAreLost(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]bool{askTime - 1: true, askTime: false, time.Minute: false} {
		b := newBucket(perSecond)
		b.settle(among("a", "a", "b"), 0)
		if got := b.credit("b", 2, 0, took); got != want || b.tokens+b.loan > 0 != want {
			t.Errorf("after %v: %t, with %v tokens and %v on loan", took, got, b.tokens, b.loan)
		}
	}
}

// Tokens for which there is no room are good for a moment, and not kept.
func TestTokensWithoutRoomAreNotKept(t *testing.T) {
	t.Parallel()
	s := among("a", "a", "b")
	b := newBucket(perSecond)
	now := time.Minute
	b.settle(s, now)
	capacity := b.capacity() // and it is full
	if !b.credit("b", 3, now, now) || b.tokens > capacity {
		t.Fatalf("%v tokens, room for %v", b.tokens, capacity)
	}
	if ok, _ := b.take(s, now); !ok || b.loan != 2 || b.tokens != capacity {
		t.Errorf("what is on loan is not used first: %v, %v tokens", b.loan, b.tokens)
	}
	late, taken := now+askTime, 0
	for ok := true; ok; taken++ {
		ok, _ = b.take(s, late)
	}
	if taken-1 > int(capacity) {
		t.Errorf("%d tokens were taken after the loan was over, and there is room for %v", taken-1, capacity)
	}
}

// Places of an edge that has left are those of who has its share now.
func TestPlacesOfAnEdgeThatLeft(t *testing.T) {
	t.Parallel()
	k := key{OfPrincipal, "acme", "anna", Limits{Concurrent: 9}}
	p := newSlots(k)
	three := among("a", "a", "b", "c")
	p.free(three, 0)
	p.credit("b", 3, 0, 0)
	p.credit("c", 2, 0, 0)
	if free := p.free(three, time.Second); free != 3+3+2 {
		t.Fatalf("%d places with those of others", free)
	}
	two := three.next(period{time.Second, []view{newView(2, []string{"a", "c"})}})
	own := two.periods[len(two.periods)-1].slots("a", p.hash, 9)
	if free := p.free(two, time.Second); free != own+2 {
		t.Errorf("%d places; %d of its own and 2 on loan", free, own)
	}
}

// recorder is the bus of an edge that others refuse, or that has one record.
type recorder struct {
	asked    []string
	value    []byte
	revision uint64
}

func (r *recorder) Borrow(_ context.Context, edge string, _ *edgev1.TokenRequest) (*edgev1.Tokens, error) {
	r.asked = append(r.asked, edge)
	return &edgev1.Tokens{}, nil
}

func (r *recorder) Look(context.Context, string) ([]byte, uint64, error) {
	return r.value, r.revision, nil
}

func (r *recorder) Replace(_ context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	if revision != r.revision {
		return 0, nil
	}
	r.value, r.revision = value, revision+1
	return r.revision, nil
}

func recording(bus *recorder, now *time.Duration) *Limiter {
	return newLimiter(Config{
		Next: gateway.NewInFlight(1 << 30), Edge: "a", Store: bus, Peers: bus,
		Logger: slog.New(slog.DiscardHandler), now: func() time.Duration { return *now },
	})
}

// An edge lends no place beyond its lease: others may have it then.
func TestPlacesAreNotLentBeyondALease(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	l := recording(&recorder{}, &now)
	l.members.holdings.Store(among("a", "a", "b"))
	l.members.until.Store(int64(lease))
	k := key{OfPrincipal, "acme", "anna", Limits{Concurrent: 8}}
	want := k.request("b", 2)
	if got := l.Lend(want); got.GetGiven() != 2 {
		t.Fatalf("lent %v", got)
	}
	now = lease - loanUsed
	if got := l.Lend(want); got != nil {
		t.Errorf("lent %v, which is good for %v, with %v left of the lease", got, loanUsed, lease-now)
	}
	// And who has them begins nothing with them after that time.
	p := newSlots(k)
	s := among("b", "a", "b")
	own := p.free(s, 0)
	p.credit("a", 2, 0, 0)
	for age, more := range map[time.Duration]int{loanUsed: 2, loanUsed + 1: 0} {
		if free := p.free(s, age); free != own+more {
			t.Errorf("after %v there are %d places, %d its own", age, free, own)
		}
	}
}

// Of many edges that have nothing each is asked in turn, a few at a time.
func TestAllEdgesAreAskedInTurn(t *testing.T) {
	t.Parallel()
	now, bus := time.Duration(0), &recorder{}
	l := recording(bus, &now)
	ids := []string{"a", "b", "c", "d", "e", "f", "g"}
	l.members.holdings.Store(among("a", ids...))
	l.members.until.Store(int64(time.Hour))
	b := l.rates.get(perSecond, l.members.holdings.Load(), now)
	defer b.mu.Unlock()
	for range 2 {
		l.borrow(t.Context(), b)
	}
	if len(bus.asked) != 2*asked {
		t.Errorf("asked %v", bus.asked)
	}
	for _, id := range ids[1:] {
		if !slices.Contains(bus.asked, id) {
			t.Errorf("edge %s was never asked: %v", id, bus.asked)
		}
	}
}

// A record from a server that lags is not obeyed: what this edge has would be taken from
// it, or, worse, given back.
func TestOldRecordIsNotObeyed(t *testing.T) {
	t.Parallel()
	now, bus := time.Duration(0), &recorder{}
	c := newMembership("a", false, bus, func() time.Duration { return now })
	c.wall = func() time.Time { return time.Unix(1e9, 0).Add(now) }
	for range 20 {
		now += beatEvery
		if err := c.tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	has := func() float64 {
		s := c.holdings.Load()
		return s.periods[len(s.periods)-1].share("a", perSecond.hash(), 10)
	}
	if has() != 1 {
		t.Fatalf("an edge alone has %v of a limit", has())
	}
	bus.value, bus.revision = []byte(`{"view":1,"members":{"z":{"beat":1,"seen":1}}}`), bus.revision-3
	now += beatEvery
	if err := c.tick(t.Context()); err == nil {
		t.Error("it is content with a record that is old")
	}
	if has() != 1 {
		t.Errorf("it has %v of the limit after a record that is old", has())
	}
}
