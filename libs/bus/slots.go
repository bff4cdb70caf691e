package bus

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// slots are the calls that an instance runs at once, and those that wait for
// one to end, of one depth. Callers compete for them by share (ADR 0017): who
// waits gets the next slot that is free if it has the fewest, and the last few
// are not for a caller that has half of all.
type slots struct {
	size, spare, places int

	mu               sync.Mutex
	running, waiting int
	shares           map[string]*share
	// turn are the shares of which calls wait, in the order in which they are
	// served where they have equally many slots.
	turn []*share
}

// share is what one caller has. The empty name is of those that nobody named,
// which are not bounded.
type share struct {
	name    string
	running int
	queue   list.List // of the *waiter that wait, the oldest first
}

// waiter is one call that waits.
type waiter struct {
	ready   chan struct{} // closed when it has a slot
	granted bool          // guarded by the lock of its slots
}

func newSlots(size int) *slots {
	s := &slots{size: size, places: 4 * size, shares: map[string]*share{}}
	if size > 1 {
		s.spare = max(1, size/8)
	}
	return s
}

// take waits for a slot, which release gives back. It returns nil at once when
// no place to wait is left, all in all or for this share, and when ctx ends
// first.
func (s *slots) take(ctx context.Context, name string) *share {
	s.mu.Lock()
	sh := s.shares[name]
	if sh == nil {
		sh = &share{name: name}
		s.shares[name] = sh
	}
	if s.waiting == 0 && s.may(sh) {
		s.running++
		sh.running++
		s.mu.Unlock()
		return sh
	}
	if s.waiting >= s.places || name != "" && sh.queue.Len() >= max(1, s.places/2) {
		s.drop(sh)
		s.mu.Unlock()
		return nil
	}
	w := &waiter{ready: make(chan struct{})}
	if sh.queue.Len() == 0 {
		s.turn = append(s.turn, sh)
	}
	place := sh.queue.PushBack(w)
	s.waiting++
	s.serve() // those before it may be others than those whom the spare slots are for
	s.mu.Unlock()
	select {
	case <-w.ready:
		return sh
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.granted {
		s.running--
		sh.running--
		s.serve()
	} else {
		s.leave(sh, place)
	}
	s.drop(sh)
	return nil
}

// release gives a slot back.
func (s *slots) release(sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	sh.running--
	s.serve()
	s.drop(sh)
}

// may reports whether a share may have one more slot now.
func (s *slots) may(sh *share) bool {
	free := s.size - s.running
	return free > s.spare || free > 0 && (2*sh.running < s.size || sh.name == "")
}

// serve gives the slots that are free to those who wait.
func (s *slots) serve() {
	for s.running < s.size {
		next := -1
		for i, sh := range s.turn {
			if s.may(sh) && (next < 0 || sh.running < s.turn[next].running) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		sh := s.turn[next]
		first := sh.queue.Front()
		w := first.Value.(*waiter)
		s.running++
		sh.running++
		w.granted = true
		close(w.ready)
		s.turn = append(slices.Delete(s.turn, next, next+1), sh)
		s.leave(sh, first)
	}
}

// leave gives the place of a call that waits no more to others.
func (s *slots) leave(sh *share, place *list.Element) {
	sh.queue.Remove(place)
	s.waiting--
	if sh.queue.Len() == 0 {
		s.turn = slices.DeleteFunc(s.turn, func(other *share) bool { return other == sh })
	}
}

// drop forgets a share that has nothing here.
func (s *slots) drop(sh *share) {
	if sh.running == 0 && sh.queue.Len() == 0 {
		delete(s.shares, sh.name)
	}
}

// workers run each job in a goroutine of its own at once, as go does, but keep
// some goroutines for the next: their stacks have grown to what a call needs,
// which shows in the rate of small calls (make bench).
type workers struct {
	jobs chan func()
	idle atomic.Int64
	keep int64
}

func newWorkers(keep int) *workers {
	return &workers{jobs: make(chan func()), keep: int64(keep)}
}

// do starts a job. The goroutines that wait for more end with ctx.
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
