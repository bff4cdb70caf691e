package bus

import (
	"context"
	"sync/atomic"
)

// workers run each job in a goroutine of its own at once, as go does, but keep
// some goroutines for the next: their stacks have grown to what a call needs,
// which shows in the rate of small calls (make bench).
type workers struct {
	jobs chan func()
	idle atomic.Int64
	keep int64
}

func newWorkers(keep int) *workers {
	return &workers{jobs: make(chan func()), keep: int64(keep)}
}

// do starts a job. The goroutines that wait for more end with ctx.
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
