package access_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// parse returns the policy of a valid file.
func parse(t testing.TB, file string) *access.Policy {
	t.Helper()
	p, err := access.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func target(t testing.TB, s string) access.Target {
	t.Helper()
	one, err := access.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// whole is a file with every member that a file may have.
var whole = func() string {
	text, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		panic(err)
	}
	return string(text)
}()

func TestRules(t *testing.T) {
	t.Parallel()
	p := parse(t, whole)
	anna := gateway.Principal{Name: "anna", Tenant: "acme"}
	bob := gateway.Principal{Name: "bob", Tenant: "acme", Roles: []string{"admin", "nobody knows"}}
	for _, c := range []struct {
		who    gateway.Principal
		target string
		want   access.Verdict
	}{
		{anna, "tools/analyzeText", access.Verdict{Allowed: true, Role: "analyst", Rule: "tools/analyzeText"}},
		{anna, "tools/analyzeText2", access.Verdict{}},
		{anna, "tools/delete_resource", access.Verdict{Role: "analyst", Rule: "tools/delete_*"}},
		{anna, "prompts/analyzeText", access.Verdict{}},
		{anna, "resources/example://a/b", access.Verdict{Allowed: true, Role: "analyst", Rule: "resources/example://*"}},
		{anna, "resources/EXAMPLE://a/b", access.Verdict{}},
		{anna, "sampling/createMessage", access.Verdict{}},
		{bob, "tools/anything", access.Verdict{Allowed: true, Role: "admin", Rule: "*"}},
		{bob, "sampling/createMessage", access.Verdict{Allowed: true, Role: "admin", Rule: "*"}},
		// The same name in another tenant is another principal.
		{gateway.Principal{Name: "anna", Tenant: "beta"}, "tools/analyzeText", access.Verdict{}},
		{gateway.Principal{Name: "anna"}, "tools/analyzeText", access.Verdict{}},
		// Deny wins, whichever role it belongs to.
		{gateway.Principal{Name: "anna", Tenant: "acme", Roles: []string{"admin"}}, "tools/delete_resource", access.Verdict{Role: "analyst", Rule: "tools/delete_*"}},
		{gateway.Anonymous, "tools/summarizeText", access.Verdict{Allowed: true, Role: "guest", Rule: "tools/summarize*"}},
		{gateway.Anonymous, "tools/analyzeText", access.Verdict{}},
		// Credentials add nothing to the anonymous principal.
		{gateway.Principal{Name: "anonymous", Roles: []string{"admin"}}, "tools/analyzeText", access.Verdict{}},
	} {
		if got := p.Decide(c.who, target(t, c.target)); got != c.want {
			t.Errorf("%s/%s, %s: %+v, want %+v", c.who.Tenant, c.who.Name, c.target, got, c.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string]struct{ fits, others []string }{
		"*":                         {[]string{"tools/a", "resources/x", "prompts/p", "sampling/createMessage"}, nil},
		"tools/*":                   {[]string{"tools/a", "tools/*"}, []string{"prompts/a"}},
		"tools/a*":                  {[]string{"tools/a", "tools/ab"}, []string{"tools/b", "tools/ba"}},
		"tools/*Text":               {[]string{"tools/Text", "tools/aText"}, []string{"tools/Texts", "tools/text"}},
		"tools/a*b*c":               {[]string{"tools/abc", "tools/a1b2c", "tools/abbcc"}, []string{"tools/acb", "tools/ab", "tools/abcd"}},
		"tools/ab*ba":               {[]string{"tools/abba", "tools/abxba"}, []string{"tools/aba"}},
		"tools/**":                  {[]string{"tools/a"}, []string{"prompts/a"}},
		"resources/note://a%20b":    {[]string{"resources/note://a%20b", "resources/note://a b"}, []string{"resources/note://a"}},
		"resources/file:///srv/*":   {[]string{"resources/file:///srv/a", "resources/file:///srv/%61", "resources/file:///srv/"}, []string{"resources/file:///srv/../etc/passwd", "resources/file:///srv/%2e%2e/etc", "resources/file:///srv"}},
		"resources/note://{id}":     {[]string{"resources/note://{id}"}, []string{"resources/note://1"}},
		"resources/note://x/*/read": {[]string{"resources/note://x/1/read"}, []string{"resources/note://x/1/write"}},
	} {
		p := parse(t, "roles: {r: {allow: ['"+pattern+"']}}")
		who := gateway.Principal{Name: "a", Roles: []string{"r"}}
		for _, name := range names.fits {
			if !p.Decide(who, target(t, name)).Allowed {
				t.Errorf("%s does not fit %s", pattern, name)
			}
		}
		for _, name := range names.others {
			if p.Decide(who, target(t, name)).Allowed {
				t.Errorf("%s fits %s", pattern, name)
			}
		}
	}
}

// A denied URI stays denied in every spelling.
func TestDeniedURIsInDisguise(t *testing.T) {
	t.Parallel()
	p := parse(t, `roles: {r: {allow: ["*"], deny: ["resources/file:///etc/*", "resources/note://secret/%C3%A4*"]}}`)
	who := gateway.Principal{Name: "a", Roles: []string{"r"}}
	for _, uri := range []string{
		"file:///etc/passwd", "file:///%65tc/passwd", "file:////etc/passwd", "file:///srv/../etc/passwd", "file:///./etc/passwd",
		"file:///srv/%2e%2e/etc/passwd", "file:///etc%2Fpasswd", "file%3A///etc/passwd", "note://secret/%C3%A4b", "note://secret/äb", "note://secret//äb",
	} {
		if v := p.Decide(who, access.NewTarget(access.Resources, uri)); v.Allowed || v.Role != "r" {
			t.Errorf("%s: %+v", uri, v)
		}
	}
	for _, uri := range []string{"file:///srv/etc/passwd", "note://secret/b", "file:///etc", "x:%zz"} {
		if !p.Decide(who, access.NewTarget(access.Resources, uri)).Allowed {
			t.Errorf("%s is denied", uri)
		}
	}
}

// The permission manager of the example that the project began with: denied calls are
// denied; without a list of allowed ones, all others are allowed.
func TestPermissionManager(t *testing.T) {
	t.Parallel()
	check := func(p *access.Policy, user, tool string) bool {
		return p.Decide(gateway.Principal{Name: user}, access.NewTarget(access.Tools, tool)).Allowed
	}
	p := parse(t, `
roles:
  listed: {allow: [tools/analyzeText, tools/summarizeText], deny: [tools/summarizeText]}
  unlisted: {allow: [tools/*], deny: [tools/delete_resource]}
principals:
  ada: {roles: [listed]}
  bob: {roles: [unlisted]}
`)
	for _, c := range []struct {
		user, tool string
		want       bool
	}{
		{"ada", "analyzeText", true},
		{"ada", "summarizeText", false}, // denied, though allowed as well
		{"ada", "delete_resource", false},
		{"bob", "delete_resource", false},
		{"bob", "analyzeText", true},
	} {
		if got := check(p, c.user, c.tool); got != c.want {
			t.Errorf("%s, %s: %v", c.user, c.tool, got)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"roles:\n  a: {alow: [x]}":                                                             `line 2: unknown key "alow"`,
		"roles:\n  a: {}\n  a: {}":                                                             "line 3:",
		"rules: {}":                                                                            `line 1: unknown key "rules"`,
		"roles:\n  a:\n    allow:\n      - tools":                                              `line 4: "tools" has no name`,
		"roles: {a: {allow: [x/y]}}":                                                           `line 1: "x/y" is not a valid pattern`,
		"roles: {a: {allow: ['t*/y']}}":                                                        "a kind has no *",
		"roles: {a: {allow: [tools/a, tools/a]}}":                                              "is there twice",
		"roles: {a: {allow: tools/a}}":                                                         "roles.a.allow cannot be a text",
		"roles: {a: {audit: write}}":                                                           `audit is "read"`,
		"roles: {a: {limits: {rate: 10}}}":                                                     "roles.a.limits.rate",
		"roles: {a: {limits: {rate: 10/d}}}":                                                   "write a number",
		"roles: {a: {limits: {concurrent: -1}}}":                                               "concurrent is a number of calls",
		"roles: {a: {approve: [prompts/x]}}":                                                   "is of no tool",
		"\nprincipals:\n  anna:\n    roles: [boss]":                                            `line 4: there is no role "boss"`,
		"principals: {anonymous: {}}":                                                          "list its roles under anonymous",
		"anonymous: [x]":                                                                       `there is no role "x"`,
		"conditions: [{on: tools/a, when: 'args.a ='}]":                                        "line 1: ERROR",
		"conditions: [{on: tools/a, when: 'principal.nam'}]":                                   "undeclared reference",
		"conditions: [{on: tools/a, when: 'name'}]":                                            "when is true or false",
		"conditions: [{on: tools/a}]":                                                          "when is an expression",
		"conditions: [{on: a, when: 'true'}]":                                                  "is not a valid pattern",
		"require_approval: ['resources/*']":                                                    "is of no tool",
		"tools: {a: {rate: 0/s}}":                                                              "write a number",
		"oauth: [{issuer: 'https://a'}]":                                                       "has no audience",
		"oauth: [{issuer: 'http://a', audience: b}]":                                           "it must be https",
		"oauth: [{issuer: 'https://a?b', audience: b}]":                                        "it must be a URL",
		"oauth: [{issuer: 'https://a', audience: b}]":                                          "set resource",
		"oauth: [{issuer: 'https://a', audience: 'https://b', typ: odd}]":                      "strict or lenient",
		"oauth: [{issuer: 'https://a', audience: 'https://b', dpop: maybe}]":                   "dpop is",
		"oauth: [{issuer: 'https://a', audience: 'https://b', algorithms: [none]}]":            "is not supported",
		"oauth: [{issuer: 'https://a', audience: 'https://b', introspection: {client_id: x}}]": "secret_file or secret_env",
		"oauth: [{issuer: 'https://a', audience: 'https://b'}, {issuer: 'https://a', audience: 'https://b'}]": "appears twice",
		"oauth: [{issuer: 'https://a', audience: 'https://b'}, {issuer: 'https://c', audience: 'https://d'}]": "only one is allowed",
		"certificates: [{principal: x}]":                                   "one of uri, dns and subject",
		"certificates: [{uri: a, roles: [nowhere]}]":                       `there is no role "nowhere"`,
		"oauth: [{issuer: 'https://a', audience: b, scopes: {'x y': []}}]": "is not a valid scope",
		"oauth: [{issuer: 'https://a', audience: b, scopes: {x: [y]}}]":    `there is no role "y"`,
		"- a":                             "names and values",
		"a: &x 1":                         "anchors",
		strings.Repeat("#", 1<<20) + "\n": "at most",
	} {
		_, err := access.Parse([]byte(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s\n\tis %v\n\twant %s", file, err, want)
		}
	}
	// All errors at once.
	_, err := access.Parse([]byte("roles:\n  a: {allow: [x]}\n  b: {deny: [y]}\nanonymous: [c]"))
	if wrong := (*access.ParseError)(nil); !errors.As(err, &wrong) || len(wrong.Problems) != 3 || wrong.Problems[2].Line != 4 {
		t.Errorf("%v", err)
	}
	if _, err := access.Parse([]byte("oauth: [{issuer: 'http://127.0.0.1:9000', audience: 'http://127.0.0.1:8000/mcp'}]")); err != nil {
		t.Error(err)
	}
}

func TestApprovers(t *testing.T) {
	t.Parallel()
	p := parse(t, whole)
	admin := func(name, tenant string) gateway.Principal {
		return gateway.Principal{Name: name, Tenant: tenant, Roles: []string{"admin"}}
	}
	anna := gateway.Principal{Name: "anna", Tenant: "acme"}
	for _, c := range []struct {
		who       gateway.Principal
		requester gateway.Principal
		want      bool
	}{
		{admin("root", "acme"), anna, true},
		{admin("root", "beta"), anna, false},                  // another tenant
		{anna, anna, false},                                   // the requester itself
		{admin("root", "acme"), admin("root", "acme"), false}, // even an admin
		{admin("root", "acme"), admin("ruth", "acme"), true},
		{gateway.Principal{Name: "carl", Tenant: "acme"}, anna, false},
	} {
		if got := p.MayApprove(c.who, c.requester.ID(), "delete_resource"); got != c.want {
			t.Errorf("%s of %s for %s: %v", c.who.Name, c.who.Tenant, c.requester.Name, got)
		}
	}
	if !p.Approval(anna, "delete_resource", false).Needed || p.Approval(anna, "analyzeText", false).Needed {
		t.Error("require_approval is not what it says")
	}
	// Without a rule about approvals, the caller approves its own calls.
	open := parse(t, "roles: {a: {allow: ['*']}}")
	if !open.MayApprove(anna, anna.ID(), "x") || open.MayApprove(admin("root", "acme"), anna.ID(), "x") {
		t.Error("without a rule, others than the caller agree")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	p := parse(t, whole)
	for _, c := range []struct {
		who        gateway.Principal
		tool, want string
	}{
		{gateway.Principal{Name: "anna", Tenant: "acme"}, "x", `{"Principal":{"rate":"10/s"},"Tenant":{"rate":"200/s","concurrent":15},"Tool":{},"Rule":""}`},
		{gateway.Principal{Name: "anna", Tenant: "acme", Roles: []string{"admin"}}, "search", `{"Principal":{"rate":"10/s"},"Tenant":{"rate":"200/s","concurrent":15},"Tool":{"rate":"5/s","concurrent":2},"Rule":"search"}`},
		// A principal that may not call a tool uses up nothing of its limit.
		{gateway.Principal{Name: "anna", Tenant: "acme", Roles: []string{"busy"}}, "search_code", `{"Principal":{"rate":"1000/min","concurrent":9},"Tenant":{"rate":"200/s","concurrent":15},"Tool":{},"Rule":""}`},
		{gateway.Principal{Name: "x", Tenant: "beta", Roles: []string{"busy", "admin"}}, "search_code", `{"Principal":{"rate":"1000/min","concurrent":9},"Tenant":{},"Tool":{"rate":"1/s"},"Rule":"search_*"}`},
		{gateway.Principal{Name: "x", Tenant: "beta", Roles: []string{"admin"}}, "", `{"Principal":{},"Tenant":{},"Tool":{},"Rule":""}`},
	} {
		got, err := json.Marshal(p.Limits(c.who, c.tool))
		if err != nil || string(got) != c.want {
			t.Errorf("%s calls %s: %s, %v", c.who.Name, c.tool, got, err)
		}
	}
}
