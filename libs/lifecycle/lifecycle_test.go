package lifecycle

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Not parallel: signals reach every test of the process.
func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	exit = func(code int) { exited <- code }
	defer func() { exit = os.Exit }()
	for name, c := range map[string]struct {
		first, second syscall.Signal
		code          int
	}{
		"interrupt twice": {syscall.SIGINT, syscall.SIGINT, 130},
		"terminate":       {syscall.SIGTERM, syscall.SIGTERM, 143},
		"mixed":           {syscall.SIGTERM, syscall.SIGINT, 130},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := Context(t.Context())
			defer stop()
			if ctx.Err() != nil {
				t.Fatal("ended without a signal")
			}
			send(t, c.first)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Fatal("the signal did not end the context")
			}
			if !errors.Is(context.Cause(ctx), ErrStopped) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			send(t, c.second)
			select {
			case code := <-exited:
				if code != c.code {
					t.Errorf("exit status %d, want %d", code, c.code)
				}
			case <-time.After(time.Minute):
				t.Fatal("the second signal did not end the process")
			}
		})
	}
}

func send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestStopEndsContext(t *testing.T) {
	ctx, stop := Context(t.Context())
	stop()
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrStopped) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

func TestParentEndsContext(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := Context(parent)
	defer stop()
	cancel()
	<-ctx.Done()
}
