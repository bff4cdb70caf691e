package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 64)
	instance := func(name string, every time.Duration, err error) *service.Service {
		s := service.New("shared", service.WithLogger(bustest.Logger(t)))
		s.Refresh(every, func(ctx context.Context) error {
			select {
			case ran <- name:
			case <-ctx.Done(): // nobody reads any more
			}
			return err
		})
		return s
	}
	await := func(t *testing.T, names ...string) {
		t.Helper()
		open := map[string]bool{}
		for _, n := range names {
			open[n] = true
		}
		for deadline := time.After(time.Minute); len(open) > 0; {
			select {
			case name := <-ran:
				delete(open, name)
			case <-deadline:
				t.Fatalf("did not refresh: %v", open)
			}
		}
	}
	url := bustest.Server(t)
	start := func(t *testing.T, s *service.Service) (stop func()) {
		t.Helper()
		r, err := s.Start(t.Context(), bustest.Connect(t, url))
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := r.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	a := instance("a", time.Hour, nil)
	a.Changed() // before it runs: nobody to tell
	stopA := start(t, a)
	await(t, "a") // at its start
	stopB := start(t, instance("b", time.Hour, errors.New("the database is away")))
	await(t, "b")
	a.Changed()
	await(t, "a", "b")
	stopB()
	a.Changed()
	await(t, "a")
	stopA()
	stopC := start(t, instance("c", time.Millisecond, nil))
	await(t, "c")
	await(t, "c") // by itself
	stopC()
}
