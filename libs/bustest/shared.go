package bustest

import (
	"context"
	"io"
	"os"
	"sync"
	"testing"
)

// Shared is a value that tests of a package share because it is expensive to start. The tests do
// not disturb each other if each uses its own names and keys. It is started for the first of them
// and ended after the last.
type Shared[T any] struct {
	Start func(t testing.TB) T

	mu    sync.Mutex
	users int
	value T
	life  *life
	// there is set if it was started successfully.
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

// life is the testing.TB of the shared value: first the test that started it, at the end the last
// one. Its context, cleanups and directories outlive the first test.
type life struct {
	testing.TB

	ctx      context.Context
	cancel   func()
	cleanups []func()
}

func (l *life) Context() context.Context { return l.ctx }

func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Output belongs to no single test.
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

// end runs the cleanups in the last test that used the value, which fails if they fail.
func (l *life) end(t testing.TB) {
	l.TB = t
	l.cancel()
	for _, f := range l.cleanups {
		defer f() // even if one fails at once
	}
}
