package service_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
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

// TestRefreshAgain: the database does not answer when a change is announced. The change is served
// soon afterwards without another announcement. Meanwhile no caller is told that the prompt does
// not exist.
func TestRefreshAgain(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	tried := make(chan struct{}, 1000)
	s := quiet(t, "prompts")
	s.Refresh(time.Hour, func(context.Context) error {
		defer func() { tried <- struct{}{} }()
		if away.Load() {
			return fault.New(fault.Unavailable, "the database does not answer")
		}
		s.SetPrompts([]service.ServedPrompt{saying("made", "by another")})
		return nil
	})
	away.Store(true)
	c := run(t, s)
	try := func(what string) {
		t.Helper()
		select {
		case <-tried:
		case <-time.After(bustest.Patience):
			t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		}
	}
	try("the refresh at the start")
	c.fails(prompt("made"), fault.Unavailable)
	try("the refresh that follows, since that one failed")
	for range 2 {
		try("another refresh, for that one failed")
	}
	away.Store(false)
	bustest.Eventually(t, "it is served, as nobody has asked for it", func() bool {
		all := c.watch.Services()
		return len(all) == 1 && len(all[0].Catalogue.GetPrompts()) == 1
	})
	if got := c.result(prompt("made")); !strings.Contains(got, `"text":"by another"`) {
		t.Error(got)
	}
}
