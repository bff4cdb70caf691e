package service

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Refresh keeps the instances of a service in step where what they offer lies in
// a database that they share. f reads it and changes the service; it runs when an
// instance starts, when one says Changed, when the bus is back, and every so often,
// for what was not heard. One call of f runs at a time, for at most 10 s. Its error
// is logged, the service goes on as it was, and f is tried again after half a second, then
// ever more rarely. Call it before the service starts.
func (s *Service) Refresh(every time.Duration, f func(context.Context) error) {
	s.refresh = &refresh{every: every, run: f}
	s.Go(func(ctx context.Context, conn *bus.Conn) error { return s.refresh.loop(ctx, s, conn) })
}

// Changed tells every instance that what they share has changed, this one too.
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
	// firstRetry is how long after one that failed the next is: what changed is known to have
	// changed, and a database that was slow for a moment is there again.
	firstRetry = 500 * time.Millisecond
)

type refresh struct {
	every time.Duration
	run   func(context.Context) error
	mu    sync.Mutex
}

// now refreshes and returns when that is done.
func (r *refresh) now(ctx context.Context, s *Service) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	err := r.run(bounded)
	if err != nil && ctx.Err() == nil {
		s.Logger().Error("the service goes on with what it had: it could not be refreshed", "service", s.name, "error", err)
	}
	return err
}

// loop follows what other instances say.
func (r *refresh) loop(ctx context.Context, s *Service, conn *bus.Conn) error {
	due := make(chan struct{}, 1)
	due <- struct{}{}
	unhook, err := conn.OnChanged(ctx, s.name, func() {
		select {
		case due <- struct{}{}:
		default: // one that has not begun will see this change too
		}
	})
	if err != nil {
		return err
	}
	defer unhook()
	next, retry := r.every, firstRetry
	for {
		// Instances that started together need not come together.
		timer := time.NewTimer(time.Duration(float64(next) * (0.8 + 0.4*rand.Float64())))
		select {
		case <-due:
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
