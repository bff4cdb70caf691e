package access_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	p := parse(t, whole+`
  delete_other: {}
`)
	anna := gateway.Principal{Name: "anna", Tenant: "acme"}
	boss := gateway.Principal{Name: "boss", Tenant: "acme", Roles: []string{"admin"}}
	for _, c := range []struct {
		who               gateway.Principal
		target, arguments string
		allowed           bool
		decided, step     string
	}{
		{anna, "tools/analyzeText", "", true, "allow tools/analyzeText of role analyst", "anna of tenant acme has role analyst"},
		{anna, "tools/delete_resource", "{}", false, "deny tools/delete_* of role analyst", "wins"},
		{anna, "tools/other", "", false, "nothing allows it", "no role allows tools/other"},
		{gateway.Principal{Name: "anna"}, "tools/analyzeText", "", false, "nothing allows it", "somebody else"},
		{gateway.Principal{Name: "new", Scopes: []string{}}, "tools/analyzeText", "", false, "nothing allows it", "scope mcp:call"},
		{boss, "tools/create_resource", `{"uri":"team://acme/1"}`, true, "allow * of role admin", "is true"},
		{boss, "tools/create_resource", `{"uri":"team://beta/1"}`, false, "the condition on line 8", "is false"},
		{boss, "tools/create_resource", ``, false, "the condition on line 8", "has no value"},
		{boss, "tools/delete_resource", ``, true, "allow * of role admin", "somebody else of the tenant with role admin"},
		{anna, "resources/example://a/%2e%2e/b", ``, true, "allow resources/example://* of role analyst", "services may read the URI as example://a/b"},
	} {
		e := p.Explain(c.who, target(t, c.target), []byte(c.arguments), time.Now())
		if e.Allowed != c.allowed || e.Decided != c.decided || !slices.ContainsFunc(e.Steps, func(s string) bool { return strings.Contains(s, c.step) }) {
			t.Errorf("%s: %+v", c.target, e)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := parse(t, `
tenants: {acme: {}}
roles:
  a:
    allow: [tools/x, "tools/*", "tools/delete_*", tools/gone, prompts/p]
    deny: ["tools/delete_*", tools/delete_all]
  b: {allow: ["*"]}
principals:
  ada: {tenant: beta, roles: [a]}
  bob: {tenant: acme}
conditions: [{on: tools/nowhere, when: "true"}]
require_approval: ["tools/never*"]
tools: {y: {rate: 1/s}}
`)
	var got []string
	for _, o := range p.Check(map[access.Kind][]string{access.Tools: {"x", "delete_all", "delete_one"}}) {
		got = append(got, o.String())
	}
	want := []string{
		"line 4: role a has rules on prompts, but may call tools/get_prompt",
		"line 5: the edge has no tools/gone",
		"line 5: tools/x of role a never decides: tools/* allows it already",
		"line 5: role a never allows tools/delete_*: it denies tools/delete_*",
		"line 5: tools/gone of role a never decides: tools/* allows it already",
		"line 6: tools/delete_all of role a never decides: tools/delete_* denies it already",
		"line 7: nobody has role b",
		"line 9: ada is of tenant \"beta\", which is not among tenants",
		"line 10: bob has no roles here",
		"line 11: the edge has no tools/nowhere",
		"line 12: tools/never* fits nothing that the edge has",
		"line 13: the edge has no tools/y",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	p = parse(t, `
roles:
  few: {allow: ["tools/*"], deny: ["resources/secret://*"]}
  bound: {allow: [tools/get_prompt]}
  boss: {approve: ["tools/*"], audit: read}
principals:
  ada: {tenant: acme, roles: [few, boss]}
  bob: {roles: [bound, boss]}
  eve: {tenant: beta, roles: [boss]}
conditions: [{on: tools/get_prompt, when: "true"}]
`)
	got = nil
	for _, o := range p.Check(nil) {
		got = append(got, o.String())
	}
	want = []string{
		"line 3: role few has rules on resources, but may call tools/read_resource",
		`line 7: ada alone approves calls in tenant "acme"`,
		"line 8: bob reads the audit trail of those without a tenant",
		`line 8: bob alone approves calls in tenant ""`,
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if odds := parse(t, whole).Check(nil); len(odds) > 0 {
		t.Errorf("%v", odds)
	}
}
