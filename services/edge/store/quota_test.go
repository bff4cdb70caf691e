package store_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// H1: an account that opens too many sessions ends its own oldest ones, and no others.
func TestH1SessionsOfOneAccountAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, bustest.Connect(t, bustest.Server(t)))
	s.Quota = quota.New("sessions", 3, 1<<20)
	create := func(account string) string {
		t.Helper()
		n := &store.Session{Principal: "p", Account: account, Version: "2025-06-18"}
		if err := s.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		return n.ID
	}
	there := func(id string, want bool) {
		t.Helper()
		_, err := s.Get(t.Context(), id)
		if want && err != nil || !want && !fault.Is(err, fault.UnknownSession) {
			t.Errorf("want it there: %t; got %v", want, err)
		}
	}
	other := create("other")
	first, second, third := create("one"), create("one"), create("one")
	if err := s.Change(t.Context(), first, func(n *store.Session) error { n.LogLevel = "debug"; return nil }); err != nil {
		t.Fatal(err)
	}
	create("one")
	there(first, true) // it was changed since
	there(second, false)
	there(third, true)
	there(other, true)
	if err := s.Create(t.Context(), &store.Session{Capabilities: []byte(`{"experimental":"` + strings.Repeat("x", 4<<10) + `"}`)}); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a client that says much of itself: %v", err)
	}
}

// H1: names of used approvals, and calls that were held and decided, count for their account as
// long as the bucket has their keys.
func TestH1TracesOfApprovalsAreBounded(t *testing.T) {
	t.Parallel()
	a := store.NewApprovals(bustest.Connect(t, bustest.Server(t)))
	a.Traces = quota.New("decided calls", 4, 1<<20)
	refused := func(what string, err error) {
		t.Helper()
		if f := fault.From(err); !fault.Is(err, fault.RateLimited) || f.Executed != fault.No || f.RetryAfter < time.Hour {
			t.Errorf("%s: %v, again after %v", what, err, f.RetryAfter)
		}
	}
	for i := range 2 {
		if first, err := a.Use(t.Context(), "ada", fmt.Sprint("name", i)); err != nil || !first {
			t.Fatal(first, err)
		}
	}
	if err := a.Unuse(t.Context(), "name0"); err != nil {
		t.Fatal(err)
	}
	hold := func(account string) error {
		h := &store.HeldCall{ID: rand.Text(), Principal: account, Account: account, Expires: time.Now().Add(time.Minute)}
		if err := a.Hold(t.Context(), h); err != nil {
			return err
		}
		_, err := a.Take(t.Context(), account, h.ID)
		return err
	}
	for range 2 {
		if err := hold("ada"); err != nil {
			t.Fatal(err)
		}
	}
	refused("a fifth that is held", hold("ada"))
	_, err := a.Use(t.Context(), "ada", "name9")
	refused("a fifth that is used", err)
	if first, err := a.Use(t.Context(), "ada", "name0"); err != nil || !first {
		t.Errorf("one that was given back: %t, %v", first, err)
	}
	if _, err := a.Use(t.Context(), "bob", "name9"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	if err := hold("bob"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// A call that was decided at another edge makes room at the edge that holds it: behind a proxy
// the two often differ.
func TestDecidedElsewhere(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	here, there := store.NewApprovals(bustest.Connect(t, url)), store.NewApprovals(bustest.Connect(t, url))
	here.Quota = quota.New("held calls", 3, 1<<20)
	hold := func() (string, error) {
		h := &store.HeldCall{ID: rand.Text(), Principal: "ada", Account: "ada", Expires: time.Now().Add(time.Minute)}
		return h.ID, here.Hold(t.Context(), h)
	}
	var held []string
	for range 3 {
		id, err := hold()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, id)
	}
	for _, id := range held[:2] {
		if _, err := there.Take(t.Context(), "ada", id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if _, err := hold(); err != nil {
			t.Fatalf("%d waits, and yet: %v", i+1, err)
		}
	}
	if _, err := hold(); !fault.Is(err, fault.RateLimited) {
		t.Errorf("three wait, and a fourth is held: %v", err)
	}
}
