package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAskersShareRefreshes: many callers ask concurrently while the database does not answer.
// Refreshes run one after another, the error is logged once, and for a moment later callers get
// that error without another refresh.
func TestAskersShareRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := New("x", WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		away := errors.New("the database does not answer")
		runs, gate := 0, make(chan struct{})
		r := &refresh{every: time.Hour, due: make(chan struct{}, 1), run: func(context.Context) error {
			runs++
			<-gate
			return away
		}}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			for {
				select {
				case <-r.due:
					_ = r.now(ctx, s)
				case <-ctx.Done():
					return
				}
			}
		})
		ask := func() {
			if err := r.ask(ctx); !errors.Is(err, away) {
				t.Error(err)
			}
		}
		var asked sync.WaitGroup
		asked.Go(ask)
		synctest.Wait() // its refresh has begun, so it serves no later callers
		for range 100 {
			asked.Go(ask)
		}
		synctest.Wait()
		close(gate)
		asked.Wait()
		if runs != 2 {
			t.Errorf("%d refreshes for 101 callers", runs)
		}
		ask()
		if runs != 2 {
			t.Error("another refresh right after one that failed")
		}
		time.Sleep(firstRetry)
		ask()
		if runs != 3 {
			t.Errorf("%d refreshes, a moment later", runs)
		}
		if n := strings.Count(log.String(), "could not be refreshed"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, log.String())
		}
		expired, cancel := context.WithCancel(ctx)
		cancel()
		time.Sleep(firstRetry)
		if err := r.ask(expired); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		stop()
		all.Wait()
	})
}
