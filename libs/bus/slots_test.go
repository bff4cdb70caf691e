package bus

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// F8: a share in which one call waits for long does not grow with each call that came and was
// cancelled: the queue holds only waiting calls, and their number is limited.
func TestF8SlotsForgetWhoLeft(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	long := s.take(t.Context(), shareName{account: "long"}, 1) // holds the only slot
	got := make(chan *share)
	go func() { got <- s.take(t.Context(), shareName{account: "p"}, 1) }()
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
		if s.take(ctx, shareName{account: "p"}, 1) != nil {
			t.Fatal("a cancelled call has a slot")
		}
	}
	s.mu.Lock()
	if n := s.shares[shareName{account: "p"}].queue.Len(); n != 1 || s.waiting != 1 {
		t.Errorf("%d waiters are kept, %d wait", n, s.waiting)
	}
	s.mu.Unlock()
	s.release(long, 1)
	if sh := <-got; sh == nil {
		t.Error("who waits has no slot")
	} else {
		s.release(sh, 1)
	}
	if len(s.shares) != 0 || len(s.tenants) != 0 || len(s.turn) != 0 || s.waiting != 0 {
		t.Errorf("left behind: %d shares, %d turns, %d wait", len(s.shares), len(s.turn), s.waiting)
	}
}

// A call with a large result counts as many MiB as recent results of its kind had.
func TestSizesOfResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		made []int // bytes
		want int
	}{
		"nothing known":        {nil, 0},
		"small":                {[]int{100, inlineResult}, 0},
		"large":                {[]int{inlineResult + 1}, 1},
		"the mean":             {[]int{8 << 20, 4 << 20}, 6},
		"small again":          {[]int{1 << 20, 0, 0}, 0},
		"large after small":    {[]int{10, 16 << 20}, 16},
		"of small ones, a few": {[]int{8 << 20, 0, 8 << 20, 0}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s sizes
			req := &busv1.Request{Method: "tools/call", Name: "t"}
			for _, n := range c.made {
				s.note(req, n)
			}
			if got := s.weight(req); got != c.want {
				t.Errorf("%d MiB; want %d", got, c.want)
			}
			if got := s.weight(&busv1.Request{Method: "tools/call", Name: "other"}); got != 0 {
				t.Errorf("another tool: %d MiB", got)
			}
		})
	}
	var s sizes
	for n := range 2 * maxSizes {
		s.note(&busv1.Request{Name: strconv.Itoa(n)}, 1<<20)
	}
	if len(s.mean) != maxSizes {
		t.Errorf("%d are remembered", len(s.mean))
	}
}

// A call that needs more slots than exist waits until all are free; slots that it turns out to need
// later count.
func TestSlotsOfWeight(t *testing.T) {
	t.Parallel()
	s := newSlots(8)
	who := shareName{account: "p"}
	most := s.take(t.Context(), who, 20)
	if most == nil {
		t.Fatal("a call that needs more than there is does not run alone")
	}
	got := make(chan *share)
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
	if running, waiting := s.now(); running != 0 || waiting != 0 || len(s.shares) != 0 || len(s.tenants) != 0 {
		t.Errorf("%d run, %d wait, %d shares", running, waiting, len(s.shares))
	}
}
