package bus

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slots limit the calls of one depth that an instance runs concurrently, and queue the others; or
// they limit the MiB of large results (results.go). A call has a weight: one slot, or a number of
// MiB. Tenants compete for slots, and callers within a tenant, by share (ADR 0017): the waiting
// share with the fewest slots gets the next free one, and a tenant that has half of all slots does
// not get the last few.
type slots struct {
	size, spare, queueSlots int

	mu               sync.Mutex
	running, waiting int
	shares           map[shareName]*share
	tenants          map[string]*tenant
	// turn are the shares with waiting calls, in the order in which they are served if they have
	// equally many slots.
	turn []*share
}

// shareName is the account that a call counts for: a caller of a tenant. A caller without a tenant
// is its own tenant. Calls with an empty account are not limited.
type shareName struct{ tenant, account string }

// share has the slots and waiting calls of one caller.
type share struct {
	name    shareName
	of      *tenant
	running int
	queue   list.List // waiting *waiter, the oldest first
}

// tenant is the sum over all callers of a tenant.
type tenant struct {
	name                     string
	shares, running, waiting int
}

// waiter is one call that waits.
type waiter struct {
	since   time.Time
	weight  int
	ready   chan struct{} // closed when it gets a slot or gives way
	granted bool          // guarded by the lock of its slots
	gone    bool          // gave way to a caller with less
}

func newSlots(size int) *slots {
	s := &slots{size: size, queueSlots: 4 * size, shares: map[shareName]*share{}, tenants: map[string]*tenant{}}
	if size > 1 {
		s.spare = max(1, size/8)
	}
	return s
}

// now returns how many calls run, and how many wait.
func (s *slots) now() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running, s.waiting
}

// take waits for weight slots, which release gives back. A call that runs alone may have more slots
// than exist. take returns nil at once if the queue is full, in total or for this tenant, or if
// earlier calls would wait for longer than the call has time. It also returns nil if ctx ends
// first, or if a caller with less takes the call's place in the queue.
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

// share returns the share of a caller.
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

// run adds slots to a share; a negative weight removes them.
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

// serve gives free slots to waiting calls.
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

// fewer reports whether a share has less than another: first by tenant, then by share.
func (sh *share) fewer(other *share) bool {
	if sh.of != other.of {
		return sh.of.running < other.of.running
	}
	return sh.running < other.running
}

// leave removes a call that no longer waits from the queue.
func (s *slots) leave(sh *share, element *list.Element) {
	sh.queue.Remove(element)
	s.waiting--
	sh.of.waiting--
	if sh.queue.Len() == 0 {
		s.turn = slices.DeleteFunc(s.turn, func(other *share) bool { return other == sh })
	}
}

// drop forgets a share without slots and waiting calls.
func (s *slots) drop(sh *share) {
	if sh.running > 0 || sh.queue.Len() > 0 || s.shares[sh.name] != sh {
		return
	}
	delete(s.shares, sh.name)
	if sh.of.shares--; sh.of.shares == 0 {
		delete(s.tenants, sh.of.name)
	}
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
