package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
)

func of(tenant string, c store.Change) store.Change {
	c.Tenant, c.Listed = tenant, fmt.Appendf(nil, `{"name":%q}`, c.Name)
	return c
}

func lists(t *testing.T, s store.Store, tenant string, want ...string) {
	t.Helper()
	all, err := s.List(t.Context(), tenant, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range all {
		got = append(got, fmt.Sprintf("%s %d %s", l.Name, l.Version, l.Entry))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", tenant, got, want)
	}
}

func tenants(t *testing.T, open Open) {
	s := open(t)
	seed(t, s, "starter", "1")
	write(t, s, of("acme", change("plan", 0, "acme's")))
	write(t, s, of("acme", change("plan", 1, "acme's too")))
	write(t, s, of("acme", change("starter", 0, "ours")))
	write(t, s, of("beta", change("plan", 0, "beta's")))
	has(t, s, "starter 1 1 by busbar")
	lists(t, s, "acme", `plan 2 {"name":"plan"}`, `starter 1 {"name":"starter"}`)
	lists(t, s, "beta", `plan 1 {"name":"plan"}`)
	lists(t, s, "gamma")
	if page, err := s.List(t.Context(), "acme", "plan", 1); err != nil || len(page) != 1 || page[0].Name != "starter" {
		t.Errorf("after plan: %+v %v", page, err)
	}
	if names, err := s.Covered(t.Context(), "acme"); err != nil || !slices.Equal(names, []string{"starter"}) {
		t.Errorf("acme covers %q %v", names, err)
	}
	for tenant, want := range map[string]string{"acme": "acme's too", "beta": "beta's"} {
		if v, err := s.Get(t.Context(), tenant, "plan", 0); err != nil || string(v.Definition) != want || v.Tenant != tenant {
			t.Errorf("%s gets %+v %v", tenant, v, err)
		}
	}
	for _, tenant := range []string{"", "gamma"} {
		_, err := s.Get(t.Context(), tenant, "plan", 0)
		refused(t, err, fault.UnknownPrompt, "plan")
		_, err = s.Versions(t.Context(), tenant, "plan")
		refused(t, err, fault.UnknownPrompt, "plan")
		_, err = s.Write(t.Context(), of(tenant, change("plan", 1, "x")))
		refused(t, err, fault.UnknownPrompt, "plan")
		_, err = s.Write(t.Context(), of(tenant, change("plan", 1, "")))
		refused(t, err, fault.UnknownPrompt, "plan")
	}
	if all, err := s.Versions(t.Context(), "acme", "plan"); err != nil || len(all) != 2 {
		t.Errorf("%+v %v", all, err)
	}
	_, revision := present(t, s)
	write(t, s, of("acme", change("starter", 1, "")))
	if names, err := s.Covered(t.Context(), "acme"); err != nil || len(names) != 0 {
		t.Errorf("acme covers %q %v", names, err)
	}
	if _, now := present(t, s); now != revision {
		t.Errorf("a tenant's change makes everybody's prompts revision %d, not %d", now, revision)
	}
	once := of("acme", change("kept", 0, "1"))
	once.Once = database.Key{Caller: "ada", Key: "k", Digest: []byte("d")}
	write(t, s, once)
	if again := write(t, s, once); again.Tenant != "acme" || again.Author != "ada" || again.Deleted {
		t.Errorf("repeated: %+v", again)
	}
}

func tenantPrompts(t *testing.T, open Open) {
	s := open(t)
	for n := range Limits.Prompts {
		write(t, s, of("acme", change(fmt.Sprint(n), 0, "x")))
	}
	_, err := s.Write(t.Context(), of("acme", change("more", 0, "x")))
	refused(t, err, fault.TooLarge, "the limit is 3")
	write(t, s, of("beta", change("more", 0, "x")))
	write(t, s, of("acme", change("0", 1, "y")))
	write(t, s, of("acme", change("0", 2, "")))
	write(t, s, of("acme", change("more", 0, "x")))
}

func tenantBytes(t *testing.T, open Open) {
	s := open(t)
	big := strings.Repeat("x", 400)
	write(t, s, of("acme", change("a", 0, big)))
	write(t, s, of("acme", change("a", 1, big)))
	write(t, s, of("acme", change("b", 0, big)))
	if all, err := s.Versions(t.Context(), "acme", "a"); err != nil || len(all) != 1 || all[0].Number != 2 {
		t.Errorf("the oldest version did not make room: %+v %v", all, err)
	}
	_, err := s.Write(t.Context(), of("acme", change("c", 0, big)))
	refused(t, err, fault.TooLarge, "the limit is 1000 bytes")
	lists(t, s, "acme", `a 2 {"name":"a"}`, `b 1 {"name":"b"}`)
	write(t, s, of("beta", change("c", 0, big)))
	write(t, s, of("acme", change("a", 2, "")))
	write(t, s, of("acme", change("c", 0, big)))
	for n := range 20 {
		write(t, s, of("acme", change("c", int64(n+1), big)))
	}
	if v, err := s.Get(t.Context(), "acme", "b", 0); err != nil || string(v.Definition) != big {
		t.Errorf("another prompt's present version: %v", err)
	}
}
