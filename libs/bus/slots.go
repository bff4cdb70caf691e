package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/share"
)

// slots limit the calls of one depth that an instance runs concurrently, and queue the others; or
// they limit the MiB of large results (results.go). A call has a weight: one slot, or a number of
// MiB. Tenants compete for slots, and callers within a tenant (ADR 0017): the waiting caller with
// the fewest slots gets the next free one, and a tenant that has half of all slots does not get the
// last few.
type slots struct {
	rule share.Rule

	mu sync.Mutex
	// calls are the calls that wait, and what running ones hold. Calls with an empty account are
	// not limited.
	calls share.Queue[*waiter]
}

// caller is the part of the slots that one caller has.
type caller = share.Account[*waiter]

// waiter is one call that waits.
type waiter struct {
	place   share.Item[*waiter]
	since   time.Time
	weight  int
	ready   chan struct{} // closed when it gets a slot or gives way
	granted bool          // guarded by the lock of its slots
}

func newSlots(size int) *slots {
	s := &slots{rule: share.Rule{Whole: int64(size)}, calls: share.Queue[*waiter]{Newest: true}}
	if size > 1 {
		s.rule.Spare = max(1, int64(size)/8)
	}
	return s
}

// now returns how many calls run, and how many wait.
func (s *slots) now() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.calls.All.Held), s.calls.All.Items
}

// take waits for weight slots, which release gives back. A call that runs alone may have more slots
// than exist. take returns nil at once if the queue is full, in total or for this tenant, or if
// earlier calls would wait for longer than the call has time. It also returns nil if ctx ends
// first, or if a caller with less takes the call's place in the queue.
func (s *slots) take(ctx context.Context, name share.Name, weight int) *caller {
	s.mu.Lock()
	own := s.calls.Of(name)
	if s.calls.All.Items == 0 && s.mayRun(own, weight) {
		own.Hold(int64(weight))
		s.mu.Unlock()
		return own
	}
	w := &waiter{since: time.Now(), weight: weight, ready: make(chan struct{})}
	w.place = share.Item[*waiter]{Value: w, Size: 1}
	if !s.wait(ctx, own, w) {
		s.mu.Unlock()
		return nil
	}
	s.serve() // earlier calls may not be allowed to use the spare slots
	s.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.granted && ctx.Err() == nil:
		return own
	case w.granted:
		own.Hold(-int64(weight))
		s.serve()
	default:
		w.place.Remove()
	}
	return nil
}

// wait reports whether a call may wait. If the queue is full, the newest call of the caller with
// the most waiting calls gives way, within the tenant with the most.
func (s *slots) wait(ctx context.Context, own *caller, w *waiter) bool {
	if first := own.Oldest; first != nil {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Since(first.Value.since) {
			return false
		}
	}
	if own.Name.Account != "" && int64(own.Tenant().Items) >= 2*s.rule.Whole {
		return false
	}
	if own.Add(&w.place); int64(s.calls.All.Items) > 4*s.rule.Whole {
		last := s.calls.All.Goes()
		last.Remove()
		close(last.Value.ready)
		return last.Value != w
	}
	return true
}

// release gives weight slots back.
func (s *slots) release(own *caller, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.Hold(-int64(weight))
	s.serve()
}

// add counts slots that a call turns out to need, whether they are free or not, for release.
func (s *slots) add(name share.Name, weight int) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.calls.Of(name)
	own.Hold(int64(weight))
	return own
}

// mayRun reports whether a caller may have weight more slots now.
func (s *slots) mayRun(own *caller, weight int) bool {
	all, n := s.calls.All.Held, int64(weight)
	return all == 0 || s.rule.Allows(all, own.Tenant().Held, n) || own.Name.Account == "" && n <= s.rule.Whole-all
}

// serve gives free slots to waiting calls.
func (s *slots) serve() {
	for s.calls.All.Held < s.rule.Whole {
		var next *caller
		for one := range s.calls.Turns() {
			if s.mayRun(one, one.Oldest.Value.weight) && (next == nil || fewer(one, next)) {
				next = one
			}
		}
		if next == nil {
			return
		}
		w := next.Oldest.Value
		next.Hold(int64(w.weight))
		next.Behind()
		w.place.Remove()
		w.granted = true
		close(w.ready)
	}
}

// fewer reports whether a caller has fewer slots than another: first by tenant, then by caller.
func fewer(one, other *caller) bool {
	if a, b := one.Tenant(), other.Tenant(); a != b {
		return a.Held < b.Held
	}
	return one.Held < other.Held
}

// workers run each job at once in a goroutine of its own, as go does, but keep some goroutines for
// later jobs: their stacks have already grown to the size that a call needs, which increases the
// rate of small calls (make bench).
type workers struct {
	jobs chan func()
	idle atomic.Int64
	keep int64
}

func newWorkers(keep int) *workers {
	return &workers{jobs: make(chan func()), keep: int64(keep)}
}

// do starts a job. Idle goroutines end with ctx.
func (w *workers) do(ctx context.Context, job func()) {
	select {
	case w.jobs <- job:
	default:
		go w.work(ctx, job)
	}
}

func (w *workers) work(ctx context.Context, job func()) {
	for {
		job()
		if w.idle.Add(1) > w.keep {
			w.idle.Add(-1)
			return
		}
		select {
		case job = <-w.jobs:
			w.idle.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}
