// Package lifecycle is what all programs have in common: the command line, the
// log, where data is kept, and an orderly end at a signal.
package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// DrainTimeout is how long a process that was asked to stop gives the calls
// in flight before it cancels them.
const DrainTimeout = 25 * time.Second

// ErrStopped is the cause of the context that Context ends.
var ErrStopped = errors.New("asked to stop")

// exit is what a second signal calls.
var exit = os.Exit

// Context returns a context that ends at the first SIGINT or SIGTERM. At the
// second the process exits at once, with the status shells give for that
// signal. Call stop when done.
func Context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel(ErrStopped)
		case <-done:
			return
		}
		select {
		case s := <-signals:
			code := 1
			if n, ok := s.(syscall.Signal); ok {
				code = 128 + int(n)
			}
			exit(code)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(context.Canceled)
	}
}
