package store_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// H1: who opens too many sessions ends its own oldest ones, and nobody else's.
func TestH1SessionsOfOnePayerAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, bustest.Connect(t, bustest.Server(t)))
	s.Quota = quota.New("sessions", 3, 1<<20)
	create := func(payer string) string {
		t.Helper()
		n := &store.Session{Principal: "p", Payer: payer, Version: "2025-06-18"}
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
