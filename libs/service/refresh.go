package service

import (
	"context"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Refresh keeps the instances of a service consistent if their tools, resources or prompts are
// stored in a shared database. f reads the database and changes the service. It runs when an
// instance starts, when one calls Changed, when the bus is back, and at the interval every, in case
// a message was lost. One call of f runs at a time, for at most 10 s. If it fails, the service
// stays as it was, and f is tried again after half a second, then at growing intervals; the first
// of several errors is logged. Call it before the service starts.
func (s *Service) Refresh(every time.Duration, f func(context.Context) error) {
	s.refresh = &refresh{every: every, run: f, due: make(chan struct{}, 1)}
	s.Go(func(ctx context.Context, conn *bus.Conn) error { return s.refresh.loop(ctx, s, conn) })
}

// Changed tells every instance, including this one, that the shared data has changed.
func (s *Service) Changed() {
	conn := s.anyConn()
	if conn == nil {
		return
	}
	if err := conn.PublishChanged(s.name); err != nil {
		s.Logger().Warn("a change was not told; other instances find it by themselves", "service", s.name, "error", err)
	}
}

const (
	// refreshTime bounds one refresh.
	refreshTime = 10 * time.Second
	// firstRetry is the wait after the first failed refresh. It is short because there is a change
	// to read, and a database may be slow only for a moment.
	firstRetry = 500 * time.Millisecond
)

type refresh struct {
	every time.Duration
	run   func(context.Context) error
	// due holds a value if a refresh has to begin. A refresh that has not begun yet serves all
	// callers.
	due chan struct{}

	running sync.Mutex // held during run

	mu sync.Mutex
	// asked is the refresh that callers of ask wait for: the next that begins. It is nil if
	// nobody waits.
	asked *refreshed
	// failed is the error of the last refresh, and failedAt when it ended.
	failed   error
	failedAt time.Time
}

// refreshed is a refresh that callers wait for: err is set before done is closed.
type refreshed struct {
	done chan struct{}
	err  error
}

// want makes a refresh begin soon.
func (r *refresh) want() {
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// ask waits for a refresh that begins after the call of ask, and returns its error. Callers
// share refreshes, so any number of them cause one after the other. For firstRetry after a
// refresh that failed, ask returns that error at once.
func (r *refresh) ask(ctx context.Context) error {
	r.mu.Lock()
	if r.failed != nil && time.Since(r.failedAt) < firstRetry {
		defer r.mu.Unlock()
		return r.failed
	}
	if r.asked == nil {
		r.asked = &refreshed{done: make(chan struct{})}
	}
	next := r.asked
	r.mu.Unlock()
	r.want()
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now refreshes, and answers all callers that asked before it began.
func (r *refresh) now(ctx context.Context, s *Service) error {
	r.running.Lock()
	defer r.running.Unlock()
	r.mu.Lock()
	asked := r.asked
	r.asked = nil
	r.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	err := r.run(bounded)
	r.mu.Lock()
	before := r.failed
	r.failed, r.failedAt = err, time.Now()
	r.mu.Unlock()
	if err != nil && before == nil && ctx.Err() == nil {
		s.Logger().Error("the service goes on with what it had: it could not be refreshed", "service", s.name, "error", err)
	}
	if asked != nil {
		asked.err = err
		close(asked.done)
	}
	return err
}

// loop refreshes when other instances report changes, and at intervals.
func (r *refresh) loop(ctx context.Context, s *Service, conn *bus.Conn) error {
	r.want()
	unhook, err := conn.OnChanged(ctx, s.name, r.want)
	if err != nil {
		return err
	}
	defer unhook()
	next, retry := r.every, firstRetry
	for {
		// Instances that started together should not refresh together.
		timer := time.NewTimer(bus.Jitter(next))
		select {
		case <-r.due:
			retry = firstRetry // there is something to read
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
		if r.now(ctx, s) == nil {
			next, retry = r.every, firstRetry
		} else {
			next, retry = min(retry, r.every), min(2*retry, r.every)
		}
	}
}
