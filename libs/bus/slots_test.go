package bus

import (
	"context"
	"runtime"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/share"
)

// F8: a share in which one call waits for long does not grow with each call that came and was
// cancelled: the queue holds only waiting calls, and their number is limited.
func TestF8SlotsForgetWhoLeft(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	long := s.take(t.Context(), share.Name{Account: "long"}, 1) // holds the only slot
	got := make(chan *caller)
	go func() { got <- s.take(t.Context(), share.Name{Account: "p"}, 1) }()
	for _, waiting := s.now(); waiting == 0; _, waiting = s.now() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if s.take(ctx, share.Name{Account: "p"}, 1) != nil {
			t.Fatal("a cancelled call has a slot")
		}
	}
	if _, waiting := s.now(); waiting != 1 {
		t.Errorf("%d wait", waiting)
	}
	s.release(long, 1)
	if sh := <-got; sh == nil {
		t.Error("who waits has no slot")
	} else {
		s.release(sh, 1)
	}
	if running, waiting := s.now(); running != 0 || waiting != 0 {
		t.Errorf("left behind: %d run, %d wait", running, waiting)
	}
}

// A call with a large result counts as many MiB as recent results of its kind had.
func TestSizesOfResults(t *testing.T) {
	t.Parallel()
	s := newSizes()
	large, small := &busv1.Request{Method: "tools/call", Name: "large"}, &busv1.Request{Method: "tools/call", Name: "small"}
	s.note(large, 8<<20)
	s.note(large, 4<<20)
	s.note(small, inlineResult)
	if l, s := s.weight(large), s.weight(small); l != 6 || s != 0 {
		t.Errorf("%d and %d MiB; want 6 and 0", l, s)
	}
	for n, want := range map[int]int{inlineResult: 0, inlineResult + 1: 1, 1 << 20: 1, 1<<20 + 1: 2} {
		if got := mebibytes(n); got != want {
			t.Errorf("%d bytes are %d MiB; want %d", n, got, want)
		}
	}
}

// A call that needs more slots than exist waits until all are free; slots that it turns out to need
// later count.
func TestSlotsOfWeight(t *testing.T) {
	t.Parallel()
	s := newSlots(8)
	who := share.Name{Account: "p"}
	most := s.take(t.Context(), who, 20)
	if most == nil {
		t.Fatal("a call that needs more than there is does not run alone")
	}
	got := make(chan *caller)
	go func() { got <- s.take(t.Context(), who, 3) }()
	for _, waiting := s.now(); waiting == 0; _, waiting = s.now() {
		runtime.Gosched()
	}
	more := s.add(who, 6)
	s.release(most, 20)
	if _, waiting := s.now(); waiting != 1 {
		t.Error("what was counted without waiting is not waited for")
	}
	s.release(more, 6)
	s.release(<-got, 3)
	if running, waiting := s.now(); running != 0 || waiting != 0 {
		t.Errorf("%d run, %d wait", running, waiting)
	}
}

// The queue is full, and the tenant of a caller has most of it: the newest call of its heaviest
// caller gives way, not the call of the one that had none.
func TestWithinATenantTheHeaviestGivesWay(t *testing.T) {
	t.Parallel()
	s := newSlots(2)
	all := s.add(share.Name{}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	ends := map[string]chan *caller{}
	wait := func(tenant, account string) {
		ends[account] = make(chan *caller, 1)
		_, before := s.now()
		go func() {
			ends[account] <- s.take(ctx, share.Name{Tenant: tenant, Account: strings.TrimRight(account, "123")}, 1)
		}()
		for _, waiting := s.now(); waiting == before && len(ends["heavy3"]) == 0; _, waiting = s.now() {
			runtime.Gosched()
		}
	}
	for _, one := range []string{"a", "b", "c", "d", "e"} {
		wait("", one)
	}
	for _, one := range []string{"heavy1", "heavy2", "heavy3", "light"} {
		wait("tenant", one)
	}
	if own := <-ends["heavy3"]; own != nil {
		t.Error("the newest call has a slot")
	}
	if _, waiting := s.now(); waiting != 8 || len(ends["light"]) > 0 {
		t.Errorf("%d wait", waiting)
	}
	cancel()
	for name, end := range ends {
		if name != "heavy3" && <-end != nil {
			t.Errorf("the cancelled call %s has a slot", name)
		}
	}
	s.release(all, 2)
}
