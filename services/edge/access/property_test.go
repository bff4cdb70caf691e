package access_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// some makes texts that often begin with each other.
func some(r *rand.Rand, letters string, most int) string {
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func somePatterns(r *rand.Rand, most int) (all []string) {
	for range r.IntN(most) {
		p := []string{"tools/", "prompts/", "resources/"}[r.IntN(3)] + some(r, "ab*", 5)
		if r.IntN(20) == 0 {
			p = "*"
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// fits is the meaning of a pattern, in the simplest code.
func fits(pattern, target string) bool {
	if pattern == "*" {
		return true
	}
	form := "^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$"
	return regexp.MustCompile(form).MatchString(target)
}

var kindOf = map[string]catalogue.Kind{"tools": catalogue.Tools, "prompts": catalogue.Prompts, "resources": catalogue.Resources}

// naive decides by the words of the documentation.
func naive(roles []access.Role, target string) bool {
	for _, r := range roles {
		if slices.ContainsFunc(r.Deny, func(p string) bool { return fits(p, target) }) {
			return false
		}
	}
	return slices.ContainsFunc(roles, func(r access.Role) bool {
		return slices.ContainsFunc(r.Allow, func(p string) bool { return fits(p, target) })
	})
}

func write(t *testing.T, roles map[string]access.Role) *access.Policy {
	t.Helper()
	text, err := json.Marshal(access.File{Roles: roles}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// Random policies decide as a naive evaluator does, and another deny never allows
// anything more.
func TestDecidesLikeANaiveEvaluator(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 100 { // different ones in each run
		roles, more := map[string]access.Role{}, map[string]access.Role{}
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprint("r", i)
			one := access.Role{Allow: somePatterns(r, 12), Deny: somePatterns(r, 4)}
			roles[name] = one
			if extra := somePatterns(r, 3); !slices.ContainsFunc(extra, func(p string) bool { return slices.Contains(one.Deny, p) }) {
				one.Deny = append(slices.Clone(one.Deny), extra...)
			}
			more[name] = one
		}
		p, denies := write(t, roles), write(t, more)
		for range 60 {
			name := []string{"tools/", "prompts/", "resources/"}[r.IntN(3)] + some(r, "ab", 6)
			var names []string
			var had []access.Role
			for role := range roles {
				if r.IntN(2) == 0 {
					names, had = append(names, role), append(had, roles[role])
				}
			}
			who := gateway.Principal{Name: "x", Roles: names}
			got := p.Decide(who, target(t, name))
			if got.Allowed != naive(had, name) {
				t.Fatalf("seed %d: %s for %+v: %+v", seed, name, had, got)
			}
			if got.Rule != "" && !fits(got.Rule, name) {
				t.Fatalf("seed %d: rule %s decided on %s", seed, got.Rule, name)
			}
			if denies.Decide(who, target(t, name)).Allowed && !got.Allowed {
				t.Fatalf("seed %d: with another deny %s is allowed", seed, name)
			}
			kind, rest, _ := strings.Cut(name, "/")
			if view := p.View(who); view != nil && view.Sees(kindOf[kind], rest, "any") != got.Allowed || view == nil && !got.Allowed {
				t.Fatalf("seed %d: %s is listed, or allowed: %+v", seed, name, got)
			}
		}
	}
}

// FuzzParse: any file is read or refused, and the resulting policy decides.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("roles: {a: {allow: ['*']}}")
	f.Add("conditions: [{on: tools/a, when: 'args.exists(a, a == 1)'}]")
	f.Add("oauth: [{issuer: 'https://a', audience: b, scopes: {x: []}}]")
	f.Fuzz(func(t *testing.T, file string) {
		p, err := access.Parse([]byte(file))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		for _, who := range []gateway.Principal{gateway.Anonymous, {Name: "a", Roles: []string{"a"}}} {
			for _, uri := range []string{"a", "file:///a/../b%20", file[:min(len(file), 100)]} {
				p.Decide(who, access.NewTarget(access.Resources, uri))
			}
		}
	})
}

// FuzzPattern compares with regular expressions.
func FuzzPattern(f *testing.F) {
	f.Add("a*b", "acb")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern+name, "\x00\r\n\\\"") || pattern == "" || name == "" {
			return
		}
		text, err := json.Marshal(access.File{Roles: map[string]access.Role{"r": {Allow: []string{"tools/" + pattern}}}})
		if err != nil {
			return
		}
		p, err := access.Parse(text)
		if err != nil {
			return
		}
		if got := p.Decide(gateway.Principal{Roles: []string{"r"}}, access.NewTarget(access.Tools, name)).Allowed; got != fits(pattern, name) {
			t.Errorf("%q fits %q: %v", pattern, name, got)
		}
	})
}

// BenchmarkDecide is a decision with a thousand rules.
func BenchmarkDecide(b *testing.B) {
	var allow, deny []string
	for i := range 500 {
		allow = append(allow, fmt.Sprintf("tools/team%d_*", i))
		deny = append(deny, fmt.Sprintf("tools/team%d_delete*", i))
	}
	text, err := json.Marshal(access.File{Roles: map[string]access.Role{"r": {Allow: allow, Deny: deny}}, Principals: map[string]access.Principal{"ada": {Tenant: "acme", Roles: []string{"r"}}}})
	if err != nil {
		b.Fatal(err)
	}
	p := parse(b, string(text))
	who := gateway.Principal{Name: "ada", Tenant: "acme"}
	t := access.NewTarget(access.Tools, "team250_search")
	b.ReportAllocs()
	for b.Loop() {
		if !p.Decide(who, t).Allowed {
			b.Fatal("denied")
		}
	}
}
