package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// healthEvery is how often WithHealth asks, and how long an answer may take.
const healthEvery = 5 * time.Second

// WithHealth has f asked every few seconds whether the instance has what it needs, such as an
// upstream. While it returns an error, or takes longer than 5 s, /readyz says so, and the instance
// goes on with its calls. For a state that is known without asking, use Check.
func WithHealth(f func(context.Context) error) Option {
	return func(s *Service) {
		var last atomic.Pointer[error]
		last.Store(new(errors.New("it was not asked yet")))
		s.Check("health", func() error { return *last.Load() })
		s.Go(func(ctx context.Context, _ *bus.Conn) error {
			tick := time.NewTicker(healthEvery)
			defer tick.Stop()
			for {
				asking, cancel := context.WithTimeout(ctx, healthEvery)
				last.Store(new(f(asking)))
				cancel()
				select {
				case <-tick.C:
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
}
