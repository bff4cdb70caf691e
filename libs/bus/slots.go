package bus

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slots are the calls that an instance runs at once, and those that wait for
// one to end, of one depth; or the MiB of their large results (results.go). A call has a
// weight: one slot, or as many MiB. Tenants compete for them, and callers within a tenant,
// by share (ADR 0017): who waits gets the next slot that is free if it has the
// fewest, and the last few are not for a tenant that has half of all.
type slots struct {
	size, spare, queueSlots int

	mu               sync.Mutex
	running, waiting int
	shares           map[shareName]*share
	tenants          map[string]*tenant
	// turn are the shares of which calls wait, in the order in which they are
	// served where they have equally many slots.
	turn []*share
}

// shareName is the account that a call counts for: a caller of a tenant. A caller without a tenant
// is its own tenant. Calls with an empty account are not limited.
type shareName struct{ tenant, account string }

// share is what one caller has.
type share struct {
	name    shareName
	of      *tenant
	running int
	queue   list.List // of the *waiter that wait, the oldest first
}

// tenant is what all callers of one have together.
type tenant struct {
	name                     string
	shares, running, waiting int
}

// waiter is one call that waits.
type waiter struct {
	since   time.Time
	weight  int
	ready   chan struct{} // closed when it has a slot, or gives way
	granted bool          // guarded by the lock of its slots
	gone    bool          // gave way to a caller that has less
}

func newSlots(size int) *slots {
	s := &slots{size: size, queueSlots: 4 * size, shares: map[shareName]*share{}, tenants: map[string]*tenant{}}
	if size > 1 {
		s.spare = max(1, size/8)
	}
	return s
}

// now is how many calls run, and wait.
func (s *slots) now() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.waiting
}

// take waits for weight slots, which release gives back. One call may have more than there
// are, while it is alone. It returns nil at once when
// no place to wait is left, all in all or for this tenant, or when those before it
// wait longer than it has time; and when ctx ends first, or one that has less takes
// its place.
func (s *slots) take(ctx context.Context, name shareName, weight int) *share {
	s.mu.Lock()
	sh := s.share(name)
	if s.waiting == 0 && s.mayRun(sh, weight) {
		s.run(sh, weight)
		s.mu.Unlock()
		return sh
	}
	if !s.mayWait(ctx, sh) {
		s.drop(sh)
		s.mu.Unlock()
		return nil
	}
	w := &waiter{since: time.Now(), weight: weight, ready: make(chan struct{})}
	if sh.queue.Len() == 0 {
		s.turn = append(s.turn, sh)
	}
	element := sh.queue.PushBack(w)
	s.waiting++
	sh.of.waiting++
	s.serve() // those before it may be others than those whom the spare slots are for
	s.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.granted && ctx.Err() == nil:
		return sh
	case w.granted:
		s.run(sh, -weight)
		s.serve()
	case !w.gone:
		s.leave(sh, element)
	}
	s.drop(sh)
	return nil
}

// share is what a caller has.
func (s *slots) share(name shareName) *share {
	sh := s.shares[name]
	if sh != nil {
		return sh
	}
	all := name.tenant
	if all == "" {
		all = "\x00" + name.account
	}
	of := s.tenants[all]
	if of == nil {
		of = &tenant{name: all}
		s.tenants[all] = of
	}
	of.shares++
	sh = &share{name: name, of: of}
	s.shares[name] = sh
	return sh
}

// mayWait reports whether a call may wait. If the queue is full, the newest call of the tenant with
// the most waiting calls gives way to a call of a tenant with fewer.
func (s *slots) mayWait(ctx context.Context, sh *share) bool {
	if first := sh.queue.Front(); first != nil {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Since(first.Value.(*waiter).since) {
			return false
		}
	}
	if sh.name.account != "" && sh.of.waiting >= max(1, s.queueSlots/2) {
		return false
	}
	if s.waiting < s.queueSlots {
		return true
	}
	var most *share
	for _, one := range s.turn {
		if most == nil || one.of.waiting > most.of.waiting || one.of == most.of && one.queue.Len() > most.queue.Len() {
			most = one
		}
	}
	if most == nil || most.of.waiting <= sh.of.waiting+1 {
		return false
	}
	last := most.queue.Back()
	w := last.Value.(*waiter)
	w.gone = true
	close(w.ready)
	s.leave(most, last)
	return true
}

// release gives weight slots back.
func (s *slots) release(sh *share, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run(sh, -weight)
	s.serve()
	s.drop(sh)
}

// add counts slots that a call turns out to need, whether they are free or not, for release.
func (s *slots) add(name shareName, weight int) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.share(name)
	s.run(sh, weight)
	return sh
}

// run counts slots that a share has from now on; fewer than 0 that it has no more.
func (s *slots) run(sh *share, weight int) {
	s.running += weight
	sh.running += weight
	sh.of.running += weight
}

// mayRun reports whether a share may have weight more slots now.
func (s *slots) mayRun(sh *share, weight int) bool {
	free := s.size - s.running - weight
	return free >= s.spare || free >= 0 && (2*(sh.of.running+weight-1) < s.size || sh.name.account == "") || s.running == 0
}

// serve gives the slots that are free to those who wait.
func (s *slots) serve() {
	for s.running < s.size {
		next := -1
		for i, sh := range s.turn {
			if s.mayRun(sh, sh.queue.Front().Value.(*waiter).weight) && (next < 0 || sh.fewer(s.turn[next])) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		sh := s.turn[next]
		first := sh.queue.Front()
		w := first.Value.(*waiter)
		s.run(sh, w.weight)
		w.granted = true
		close(w.ready)
		s.turn = append(slices.Delete(s.turn, next, next+1), sh)
		s.leave(sh, first)
	}
}

// fewer reports whether a share has less than another: its tenant, or itself.
func (sh *share) fewer(other *share) bool {
	if sh.of != other.of {
		return sh.of.running < other.of.running
	}
	return sh.running < other.running
}

// leave gives the place of a call that waits no more to others.
func (s *slots) leave(sh *share, element *list.Element) {
	sh.queue.Remove(element)
	s.waiting--
	sh.of.waiting--
	if sh.queue.Len() == 0 {
		s.turn = slices.DeleteFunc(s.turn, func(other *share) bool { return other == sh })
	}
}

// drop forgets a share that has nothing here.
func (s *slots) drop(sh *share) {
	if sh.running > 0 || sh.queue.Len() > 0 || s.shares[sh.name] != sh {
		return
	}
	delete(s.shares, sh.name)
	if sh.of.shares--; sh.of.shares == 0 {
		delete(s.tenants, sh.of.name)
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
