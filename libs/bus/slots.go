package bus

import (
	"context"
	"slices"
	"sync"
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
	name             string
	running, waiting int
	queue            []*waiter
}

// waiter is one call that waits. Both are guarded by the lock of its slots.
type waiter struct {
	ready         chan struct{} // closed when it has a slot
	granted, gone bool
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
	if s.waiting >= s.places || name != "" && sh.waiting >= max(1, s.places/2) {
		s.drop(sh)
		s.mu.Unlock()
		return nil
	}
	w := &waiter{ready: make(chan struct{})}
	if sh.waiting == 0 {
		s.turn = append(s.turn, sh)
	}
	sh.queue = append(sh.queue, w)
	sh.waiting++
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
		w.gone = true
		s.left(sh)
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
		w := sh.queue[0]
		for w.gone {
			sh.queue = sh.queue[1:]
			w = sh.queue[0]
		}
		sh.queue = sh.queue[1:]
		s.running++
		sh.running++
		w.granted = true
		close(w.ready)
		s.turn = append(slices.Delete(s.turn, next, next+1), sh)
		s.left(sh)
	}
}

// left notes that one call of a share waits no more.
func (s *slots) left(sh *share) {
	sh.waiting--
	s.waiting--
	if sh.waiting == 0 {
		sh.queue = nil
		s.turn = slices.DeleteFunc(s.turn, func(other *share) bool { return other == sh })
	}
}

// drop forgets a share that has nothing here.
func (s *slots) drop(sh *share) {
	if sh.running == 0 && sh.waiting == 0 {
		delete(s.shares, sh.name)
	}
}
