package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// open opens a policy file and watches it.
func open(t testing.TB, file string, log *slog.Logger) (l *access.Live, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := access.Open(path, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, path
}

func view(who gateway.Principal, method, name, arguments string) gateway.View {
	return gateway.View{
		Call:      &gateway.Call{Door: "rest", Method: method, Name: name, Arguments: []byte(arguments)},
		Principal: who, Target: catalogue.Target{Service: "resource", Tool: &catalogue.Tool{}},
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	l, _ := open(t, `
roles:
  one: {allow: [tools/a]}
  reader: {allow: ["resources/note://*", prompts/p]}
  model: {allow: ["sampling/*"]}
`, bustest.Logger(t))
	roles := func(all ...string) gateway.Principal { return gateway.Principal{Name: "ada", Roles: all} }
	for _, c := range []struct {
		who                     gateway.Principal
		method, name, arguments string
		want                    bool
	}{
		{roles("one"), "tools/call", "a", "", true},
		{roles("one"), "tools/call", "b", "", false},
		{roles("one"), "prompts/get", "a", "", false},
		{roles("one"), "resources/read", "a", "", false},
		{roles("one"), "resources/list", "resource", "", true}, // whose entries are filtered
		{roles("one"), "sampling/createMessage", "", "{}", false},
		{roles("one"), "completion/complete", "", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`, false},
		{roles("one"), "completion/complete", "", `{`, false},
		{roles("one"), "made/up", "a", "", false},
		{roles("one"), "tasks/get", "x", "", true},
		{roles("reader"), "prompts/get", "p", "", true},
		{roles("reader"), "resources/read", "note://1", "", true},
		{roles("reader"), "resources/read", "file://1", "", false},
		{roles("reader"), "resources/list", "resource", "", true},
		{roles("reader"), "completion/complete", "", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`, true},
		{roles("reader"), "completion/complete", "", `{"ref":{"type":"ref/prompt","name":"q"},"argument":{"name":"x","value":""}}`, false},
		{roles("reader"), "completion/complete", "", `{"ref":{"type":"ref/resource","uri":"note://{id}"},"argument":{"name":"id","value":""}}`, true},
		{roles("reader"), "completion/complete", "", `{"ref":{"type":"ref/resource","uri":"file://{id}"},"argument":{"name":"id","value":""}}`, false},
		{roles("model"), "sampling/createMessage", "", "{}", true},
		{roles(), "tools/call", "a", "", false},
		{gateway.Anonymous, "tools/call", "a", "", false},
	} {
		err := l.Authorize(t.Context(), view(c.who, c.method, c.name, c.arguments))
		if (err == nil) != c.want || err != nil && !errors.Is(err, gateway.ErrUnseen) {
			t.Errorf("%v: %s %s %s: %v", c.who.Roles, c.method, c.name, c.arguments, err)
		}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when, arguments string
		want            bool
	}{
		{`args.uri.startsWith("team://" + principal.tenant)`, `{"uri":"team://acme/x"}`, true},
		{`args.uri.startsWith("team://" + principal.tenant)`, `{"uri":"team://beta/x"}`, false},
		{`args.uri.startsWith("team://" + principal.tenant)`, `{}`, false},        // an error
		{`args.uri.startsWith("team://" + principal.tenant)`, `{"uri":7}`, false}, // another one
		{`args.uri.startsWith("team://" + principal.tenant)`, `{"uri":"`, false},  // no JSON
		{`args.uri.startsWith("team://" + principal.tenant)`, `{"uri":"team://beta","uri":"team://acme"}`, false},
		{`args.n <= 9007199254740992`, `{"n":9007199254740993}`, false},
		{`args.n <= 9007199254740992`, `{"n":9007199254740992}`, true},
		{`args.n < 5 && args.m == 1.5`, `{"n":4,"m":1.5}`, true},
		{`args.n == 5`, `{"n":5.0}`, true},
		{`!has(args.force) || "boss" in principal.roles`, `{"force":true}`, false},
		{`!has(args.force) || "boss" in principal.roles`, ``, true},
		{`"writer" in principal.roles && principal.name == "ada" && principal.tenant == "acme" && principal.scopes == ["s"]`, ``, true},
		{`principal.program`, ``, false},
		{`!principal.program && target.service == "resource" && !target.readOnly && !target.requiresApproval && name == "create_resource" && door == "rest"`, ``, true},
		{`now > timestamp("2020-01-01T00:00:00Z")`, ``, true},
		{`args.yes`, `{"yes":"true"}`, false}, // neither true nor false
		{`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e+args.n > 0)))))`, `{"n":1}`, false}, // costs too much
	} {
		l, _ := open(t, "roles: {writer: {allow: ['*']}}\nconditions: [{on: 'tools/create*', when: '"+c.when+"'}]", bustest.Logger(t))
		who := gateway.Principal{Name: "ada", Tenant: "acme", Roles: []string{"writer"}, Scopes: []string{"s"}}
		err := l.Authorize(t.Context(), view(who, "tools/call", "create_resource", c.arguments))
		if (err == nil) != c.want || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s of %s: %v", c.when, c.arguments, err)
		}
		if err := l.Authorize(t.Context(), view(who, "tools/call", "other", c.arguments)); err != nil {
			t.Errorf("a condition on something else: %v", err)
		}
	}
}

// All conditions on a target have to hold. One about resources has to hold in every
// spelling of the URI.
func TestSeveralConditions(t *testing.T) {
	t.Parallel()
	l, _ := open(t, `
roles: {r: {allow: ["*"]}}
conditions:
  - {on: "tools/*", when: 'has(args.a)'}
  - {on: "tools/*", when: 'has(args.b)'}
  - {on: tools/x, when: 'has(args.c)'}
  - {on: "resources/note://secret/*", when: 'principal.name == "ada"'}
`, bustest.Logger(t))
	eve := gateway.Principal{Name: "eve", Roles: []string{"r"}}
	for arguments, want := range map[string]bool{`{"a":1,"b":1,"c":1}`: true, `{"a":1,"b":1}`: false, `{"b":1,"c":1}`: false, `{"a":1,"c":1}`: false} {
		if err := l.Authorize(t.Context(), view(eve, "tools/call", "x", arguments)); (err == nil) != want {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	for _, uri := range []string{"note://secret/a", "note://%73ecret/a", "note://secret//a"} {
		if l.Authorize(t.Context(), view(eve, "resources/read", uri, "")) == nil {
			t.Errorf("%s is read against a condition", uri)
		}
	}
}

// The log says why a condition failed, but nothing about the arguments, and clients
// cannot fill it.
func TestConditionLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, _ := open(t, "roles: {r: {allow: ['*']}}\nconditions:\n  - {on: tools/x, when: 'int(args.a) > 1'}", slog.New(slog.NewTextHandler(&out, nil)))
	who := gateway.Principal{Name: "ada", Roles: []string{"r"}}
	for range 1000 {
		if err := l.Authorize(t.Context(), view(who, "tools/call", "x", `{"a":"hunter2"}`)); !fault.Is(err, fault.Forbidden) || strings.Contains(err.Error(), "hunter2") {
			t.Fatal(err)
		}
	}
	if s := out.String(); !strings.Contains(s, "line=3") || strings.Contains(s, "hunter2") || strings.Count(s, "\n") > 30 {
		t.Errorf("the log: %.2000s", s)
	}
}

func TestMissingScope(t *testing.T) {
	t.Parallel()
	l, _ := open(t, whole, bustest.Logger(t))
	token := gateway.Principal{Name: "u", Tenant: "acme", Scopes: []string{"other"}}
	err := l.Authorize(t.Context(), view(token, "tools/call", "analyzeText", ""))
	var missing access.MissingScope
	if !fault.Is(err, fault.Forbidden) || !errors.As(err, &missing) || missing.Scope != "mcp:call" {
		t.Errorf("a scope would allow it: %v", err)
	}
	for name, c := range map[string]struct {
		who  gateway.Principal
		tool string
	}{
		"no scope allows it":        {token, "nothing"},
		"denied by the scope's own": {token, "delete_resource"},
		"no token":                  {gateway.Principal{Name: "u", Tenant: "acme"}, "analyzeText"},
		"anonymous":                 {gateway.Anonymous, "analyzeText"},
	} {
		if err := l.Authorize(t.Context(), view(c.who, "tools/call", c.tool, "")); !errors.Is(err, gateway.ErrUnseen) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The listed names are those that may be called, and callers that see the same share a
// key.
func TestSight(t *testing.T) {
	t.Parallel()
	p := parse(t, whole)
	anna, twin := gateway.Principal{Name: "anna", Tenant: "acme"}, gateway.Principal{Name: "x", Roles: []string{"nobody", "analyst"}}
	s := p.View(anna)
	if s.Key() != p.View(twin).Key() || s.Key() == p.View(gateway.Anonymous).Key() || s.Key() == parse(t, whole+"\n").View(anna).Key() {
		t.Error("keys are not those of roles and policy")
	}
	for name, want := range map[string]bool{"example://{id}": true, "note://{id}": false} {
		if s.Sees(catalogue.Templates, name, "r") != want || s.Sees(catalogue.Skills, name, "r") != want {
			t.Errorf("%s", name)
		}
	}
	if p.View(gateway.Principal{Name: "root", Roles: []string{"admin"}}) != nil {
		t.Error("who may do everything has a sight of its own")
	}
	if p.View(gateway.Principal{Name: "anna", Tenant: "acme", Roles: []string{"admin"}}).Sees(catalogue.Tools, "delete_x", "r") {
		t.Error("what is denied is shown")
	}
}

// A policy that an edge cannot prepare for does not come into force, not even in part,
// until it can.
func TestPolicyComesWhole(t *testing.T) {
	t.Parallel()
	l, path := open(t, "roles: {r: {allow: [tools/a]}}", bustest.Logger(t))
	var can atomic.Bool
	l.Prepare(func(next *access.Policy) error {
		if can.Load() {
			return nil
		}
		return errors.New("a secret is not there")
	})
	before := l.Now()
	if err := os.WriteFile(path, []byte("roles: {r: {allow: [tools/b]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it is said that the file is not in force", func() bool { return !l.Broken().IsZero() })
	if l.Now() != before {
		t.Error("another policy is in force")
	}
	can.Store(true)
	bustest.Eventually(t, "it comes into force without another change of the file", func() bool { return l.Now() != before && l.Broken().IsZero() })
}

func TestReload(t *testing.T) {
	t.Parallel()
	l, path := open(t, "roles: {r: {allow: [tools/a]}}", bustest.Logger(t))
	may := func(tool string) bool {
		return l.Authorize(context.Background(), view(gateway.Principal{Name: "a", Roles: []string{"r"}}, "tools/call", tool, "")) == nil
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("roles: {r: {allow: [tools/b]}}")
	bustest.Eventually(t, "the new policy", func() bool { return may("b") && !may("a") })
	put("roles: {r: {alow: [tools/c]}}")
	bustest.Eventually(t, "the broken file is seen", func() bool { return !l.Broken().IsZero() })
	if !may("b") {
		t.Error("the last good policy is not in force")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// In the way that mounted configuration is replaced: by changing a link.
	next := path + ".next"
	if err := os.WriteFile(next, []byte("roles: {r: {allow: [tools/d]}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(next, path); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the exchanged file", func() bool { return may("d") && l.Broken().IsZero() })
	if _, err := access.Open(path+".none", bustest.Logger(t)); err == nil {
		t.Error("an edge starts without its policy")
	}
	put("roles: [")
	if _, err := access.Open(path, bustest.Logger(t)); err == nil || !strings.Contains(err.Error(), "access.yaml") {
		t.Errorf("an edge starts with a broken policy: %v", err)
	}
}
