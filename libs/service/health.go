package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// healthEvery is the interval of WithHealth, and the longest that f may take.
const healthEvery = 5 * time.Second

// WithHealth calls f every 5 s to learn whether the instance has what it needs, such as an
// upstream. While f returns an error, or takes longer than 5 s, /readyz says so, and the instance
// continues with its calls. For a state that is known without a request, use Check.
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
