package bustest

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// A shared value exists from the first of the tests that use it to the last one.
func TestShared(t *testing.T) {
	t.Parallel()
	var said []string
	var dir string
	all := Shared[string]{Start: func(t testing.TB) string {
		dir = t.TempDir()
		said = append(said, "start")
		t.Cleanup(func() { said = append(said, "end") })
		t.Cleanup(func() { said = append(said, "before the end") })
		t.Cleanup(func() {
			if t.Context().Err() == nil {
				t.Error("its context goes on")
			}
		})
		return "value"
	}}
	for range 2 {
		t.Run("both", func(t *testing.T) {
			for range 2 {
				t.Run("one", func(t *testing.T) {
					v := all.Use(t)
					t.Parallel()
					if _, err := os.Stat(dir); v != "value" || err != nil {
						t.Error(v, err)
					}
				})
			}
		})
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("its directory is left: %v", err)
		}
	}
	if got := strings.Join(said, ", "); got != "start, before the end, end, start, before the end, end" {
		t.Error(got)
	}
}

// A failing start fails all tests that wait for it, with its message, and the next test tries
// again. A failing cleanup does not keep others from running.
func TestSharedFails(t *testing.T) {
	t.Parallel()
	starts, ends := 0, 0
	all := Shared[*int]{Start: func(t testing.TB) *int {
		t.Cleanup(func() { ends++ })
		t.Cleanup(func() { t.FailNow() })
		if starts++; starts == 1 {
			t.FailNow()
		}
		return &starts
	}}
	// use is a test that uses the shared value until it is told to end.
	use := func() (one *quiet, got *int) {
		one = &quiet{TB: t}
		one.run(func() { got = all.Use(one) })
		return one, got
	}
	first, _ := use()
	second, got := use()
	if !first.failed || !second.failed || got != nil || starts != 1 || ends != 0 {
		t.Fatalf("a start that failed is used: %t %t %v, %d starts, %d ends", first.failed, second.failed, got, starts, ends)
	}
	first.end()
	second.end()
	third, got := use()
	third.end()
	if got == nil || starts != 2 || ends != 2 || !third.failed {
		t.Errorf("afterwards: %v, %d starts, %d ends, %t", got, starts, ends, third.failed)
	}
}

// quiet is a test that may fail.
type quiet struct {
	testing.TB

	failed   bool
	cleanups []func()
}

func (q *quiet) Cleanup(f func()) { q.cleanups = append(q.cleanups, f) }

func (q *quiet) Fatal(...any) { q.FailNow() }

func (q *quiet) FailNow() { q.failed = true; runtime.Goexit() }

func (q *quiet) end() {
	for _, f := range q.cleanups {
		q.run(f)
	}
}

// run runs a part of the test up to where it ends.
func (q *quiet) run(f func()) {
	ended := make(chan struct{})
	go func() { defer close(ended); f() }()
	<-ended
}
