package bus

import (
	"context"
	"runtime"
	"testing"
)

// F8: a share of which one call waits for long does not grow with each one that
// came and was cancelled: places bound those that wait, and nobody else is kept.
func TestF8SlotsForgetWhoLeft(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	long := s.take(t.Context(), shareName{payer: "long"}) // holds the only slot
	got := make(chan *share)
	go func() { got <- s.take(t.Context(), shareName{payer: "p"}) }()
	waiting := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting
	}
	for waiting() == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if s.take(ctx, shareName{payer: "p"}) != nil {
			t.Fatal("a cancelled call has a slot")
		}
	}
	s.mu.Lock()
	if n := s.shares[shareName{payer: "p"}].queue.Len(); n != 1 || s.waiting != 1 {
		t.Errorf("%d waiters are kept, %d wait", n, s.waiting)
	}
	s.mu.Unlock()
	s.release(long)
	if sh := <-got; sh == nil {
		t.Error("who waits has no slot")
	} else {
		s.release(sh)
	}
	if len(s.shares) != 0 || len(s.tenants) != 0 || len(s.turn) != 0 || s.waiting != 0 {
		t.Errorf("left behind: %d shares, %d turns, %d wait", len(s.shares), len(s.turn), s.waiting)
	}
}
