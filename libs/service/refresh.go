package service

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// WithRefresh keeps the instances of a service in step where what they offer
// lies in a database that they share. f reads it and changes the service; it
// runs when an instance starts, when one says Changed, when the bus is back,
// and every so often, for what was not heard. One call of f runs at a time. Its
// error is logged, and the service goes on as it was.
func WithRefresh(every time.Duration, f func(ctx context.Context, s *Service) error) Option {
	return func(s *Service) { s.refresh = &refresh{every: every, run: f} }
}

// Changed tells every instance that what they share has changed, this one too.
func (s *Service) Changed() {
	conn := look(s, func() *bus.Conn {
		for r := range s.running {
			return r.conn // whichever: every instance hears each of them
		}
		return nil
	})
	if conn == nil {
		return
	}
	if err := conn.PublishChanged(s.name); err != nil {
		s.logger().Warn("a change was not told; other instances find it by themselves", "service", s.name, "error", err)
	}
}

// refreshTime bounds one refresh.
const refreshTime = 10 * time.Second

type refresh struct {
	every time.Duration
	run   func(ctx context.Context, s *Service) error
	mu    sync.Mutex
}

// now refreshes and returns when that is done.
func (r *refresh) now(ctx context.Context, s *Service) {
	bounded, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.run(bounded, s); err != nil && ctx.Err() == nil {
		s.logger().Error("the service goes on with what it had: it could not be refreshed", "service", s.name, "error", err)
	}
}

// start follows what other instances say until stop is called.
func (r *refresh) start(starting context.Context, s *Service, conn *bus.Conn) (stop func(), err error) {
	due := make(chan struct{}, 1)
	due <- struct{}{}
	unhook, err := conn.OnChanged(starting, s.name, func() {
		select {
		case due <- struct{}{}:
		default: // one that has not begun will see this change too
		}
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// Instances that started together need not come together.
			timer := time.NewTimer(time.Duration(float64(r.every) * (0.8 + 0.4*rand.Float64())))
			select {
			case <-due:
				r.now(ctx, s)
			case <-timer.C:
				r.now(ctx, s)
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}()
	return func() {
		unhook()
		cancel()
		<-done
	}, nil
}
