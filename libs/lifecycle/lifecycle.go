// Package lifecycle is the common part of all programs: the command line, the log, the
// directory for data, and an orderly end at a signal. Start at Main.
package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// DrainTimeout is how long a stopping process waits for calls in flight before it cancels
// them.
//
//limit:process calls in flight after a service is told to stop | they are cancelled
const DrainTimeout = 25 * time.Second

// ErrStopped is the cause of the context that Context ends.
var ErrStopped = errors.New("asked to stop")

// stopped is ErrStopped with the signal that caused it.
type stopped struct{ os.Signal }

func (stopped) Error() string        { return ErrStopped.Error() }
func (stopped) Is(target error) bool { return target == ErrStopped }

// code returns the exit status that shells use for the signal.
func (s stopped) code() int {
	if n, ok := s.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// exit is called by a second signal.
var exit = os.Exit

// Context returns a context that ends at the first SIGINT or SIGTERM. At the second, the
// process exits at once, with the status that shells use for that signal. Call stop
// when done.
func Context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(stopped{s})
		case <-done:
			return
		}
		select {
		case s := <-signals:
			exit(stopped{s}.code())
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(context.Canceled)
	}
}
