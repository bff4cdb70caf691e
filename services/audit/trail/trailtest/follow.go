package trailtest

import (
	"strings"
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
	refused := Event("beta", 4)
	refused.Method, refused.Name, refused.Outcome = "busbar/audit", "tail", "forbidden"
	Append(t, s, 3, own, begun, refused)
	if rows := list(t, s, trail.Filter{NoQuestions: true, All: true, Tenant: "beta"}); len(rows) != 3 {
		t.Errorf("without the answered questions of followers: %v", rows)
	}
	if rows, _, _, err := trail.Follow(t.Context(), s, trail.Filter{Tenant: "acme"}, at); err != nil || len(rows) != 1 || rows[0].Tenant != "acme" {
		t.Errorf("one tenant follows %v, %v", rows, err)
	}
	rows, at, more, err := trail.Follow(t.Context(), s, trail.Filter{}, at)
	if err != nil || len(rows) != 3 || more {
		t.Errorf("%v, %v, %v", rows, more, err)
	}
	if rows, _, _, err := trail.Follow(t.Context(), s, trail.Filter{}, at); err != nil || len(rows) != 0 {
		t.Errorf("once more: %v, %v", rows, err)
	}
	if _, _, _, err := trail.Follow(t.Context(), s, trail.Filter{}, "x"); err == nil {
		t.Error("it takes any position")
	}
	if n, err := s.Others(t.Context(), "acme"); err != nil || n != 4 {
		t.Errorf("%d events of others, %v", n, err)
	}
}

// followMany follows many rows of two tenants, large ones too. Each answer is bounded and has rows
// of both; all rows come, once.
func followMany(t *testing.T, e Engine) {
	s := open(t, e)
	_, at, _, err := trail.Follow(t.Context(), s, trail.Filter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	const each = 900
	for _, tenant := range []string{"acme", "beta"} {
		events := Events(tenant, 1, each)
		for i := range events {
			events[i].Arguments = []byte(`"` + strings.Repeat("x", 8000) + `"`)
		}
		Append(t, s, each, events...)
	}
	seen := map[string]int{}
	for more := true; more; {
		var rows []trail.Row
		if rows, at, more, err = trail.Follow(t.Context(), s, trail.Filter{}, at); err != nil {
			t.Fatal(err)
		}
		tenants, size := map[string]bool{}, 0
		for _, r := range rows {
			seen[r.Tenant+" "+r.ID]++
			tenants[r.Tenant], size = true, size+len(r.Arguments)
		}
		if len(rows) > trail.MaxPage || size > 5<<20 || more && len(tenants) != 2 {
			t.Fatalf("an answer has %d rows of %v, %d bytes", len(rows), tenants, size)
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	if len(seen) != 2*each {
		t.Errorf("%d rows came, want %d", len(seen), 2*each)
	}
}
