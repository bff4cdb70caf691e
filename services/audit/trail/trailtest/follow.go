package trailtest

import (
	"testing"

	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// follow appends events of two tenants, late ones too, and expects each of them once.
func follow(t *testing.T, e Engine) {
	s := open(t, e)
	Append(t, s, 2, Events("acme", 5, 6)...)
	rows, at, _, err := trail.Follow(t.Context(), s, trail.Filter{}, "")
	if err != nil || len(rows) != 0 {
		t.Fatalf("%d rows from now on, %v", len(rows), err)
	}
	Append(t, s, 1, Event("acme", 1)) // before the others by its time
	Append(t, s, 1, Event("beta", 1))
	own := Event("beta", 2)
	own.Method, own.Name = "busbar/audit", "tail"
	begun := Event("beta", 3)
	begun.Outcome = trail.Begun
	Append(t, s, 2, own, begun)
	if rows, _, _, err := trail.Follow(t.Context(), s, trail.Filter{Tenant: "acme"}, at); err != nil || len(rows) != 1 || rows[0].Tenant != "acme" {
		t.Errorf("one tenant follows %v, %v", rows, err)
	}
	rows, at, more, err := trail.Follow(t.Context(), s, trail.Filter{}, at)
	if err != nil || len(rows) != 2 || more {
		t.Errorf("%v, %v, %v", rows, more, err)
	}
	if rows, _, _, err := trail.Follow(t.Context(), s, trail.Filter{}, at); err != nil || len(rows) != 0 {
		t.Errorf("once more: %v, %v", rows, err)
	}
	if _, _, _, err := trail.Follow(t.Context(), s, trail.Filter{}, "x"); err == nil {
		t.Error("it takes any position")
	}
	if n, err := s.Others(t.Context(), "acme"); err != nil || n != 3 {
		t.Errorf("%d events of others, %v", n, err)
	}
}
