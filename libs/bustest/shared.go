package bustest

import (
	"context"
	"io"
	"os"
	"sync"
	"testing"
)

// Shared is what tests of a package use together, because it is expensive to start and because none
// of them disturbs another there: each has names and keys of its own. It is started for the first
// and ended after the last of them.
type Shared[T any] struct {
	Start func(t testing.TB) T

	mu    sync.Mutex
	users int
	value T
	life  *life
	// there says that it was started, and not that its start failed.
	there bool
}

// Use returns the value, for the length of the test. A parallel test calls it before
// t.Parallel, so that the value stays until all of them have run.
func (s *Shared[T]) Use(t testing.TB) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Cleanup(func() { s.leave(t) })
	s.users++
	if s.life == nil {
		s.life = &life{TB: t}
		s.life.ctx, s.life.cancel = context.WithCancel(context.Background())
		s.value = s.Start(s.life)
		s.there = true
	}
	if !s.there {
		t.Fatal("what tests share did not start, as another of them says")
	}
	return s.value
}

func (s *Shared[T]) leave(t testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	life := s.life
	s.life, s.there = nil, false
	life.end(t)
}

// life is the test that has started what is shared, and the last one when that ends, with
// a context, cleanups and directories that outlive the first.
type life struct {
	testing.TB

	ctx      context.Context
	cancel   func()
	cleanups []func()
}

func (l *life) Context() context.Context { return l.ctx }

func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Output is of no single test.
func (l *life) Output() io.Writer { return os.Stderr }

func (l *life) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "busbar-shared-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			l.Error(err)
		}
	})
	return dir
}

// end has everything end in the last test that used it, which fails when that fails.
func (l *life) end(t testing.TB) {
	l.TB = t
	l.cancel()
	for _, f := range l.cleanups {
		defer f() // also where one fails at once
	}
}
