package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// If a service may read a URI as another one, a rule or condition against the other one
// applies to it too, in every spelling.
func TestH8URIsAreReadAsServicesMay(t *testing.T) {
	t.Parallel()
	ada := gateway.Principal{Name: "ada"}
	denies := parse(t, `{roles: {a: {allow: ["resources/*"], deny: ["resources/file:///etc/*", "resources/note:secret/*", "resources/team://Acme/*"]}}, principals: {ada: {roles: [a]}}}`)
	forbids := parse(t, `
roles: {a: {allow: ["resources/*"]}}
principals: {ada: {roles: [a]}}
conditions: [{on: "resources/*", when: '!name.startsWith("file:///etc/") && !name.startsWith("note:secret/") && !name.startsWith("team://acme/")'}]
`)
	allows := parse(t, `{roles: {a: {allow: ["resources/file:///srv/*", "resources/note:open/*", "resources/Team://Acme/*"]}}, principals: {ada: {roles: [a]}}}`)
	for _, uri := range []string{
		"file:///etc/x", "file:///%65tc/x", "file:////etc/x", "file:///srv/../etc/x", "FILE:///etc/x", "file:/etc/x", "file://localhost/etc/x", "file:/srv/../etc//x",
		"note:secret/x", "note:./secret/x", "note:open/../secret/x", "note:open/%2e%2e/secret/x", "NOTE:secret//x", "team://acme/x", "team://ACME/x", "TEAM://Acme/a/../x", "team://%41cme/x",
	} {
		one := target(t, "resources/"+uri)
		if denies.Decide(ada, one).Allowed {
			t.Errorf("%s is not denied", uri)
		}
		if e := forbids.Explain(ada, one, nil, time.Now()); e.Allowed {
			t.Errorf("%s passes the condition: %s", uri, strings.Join(e.Steps, "\n"))
		}
		if allows.Decide(ada, one).Allowed && !strings.HasPrefix(strings.ToLower(uri), "team://") {
			t.Errorf("%s is allowed", uri)
		}
	}
	for _, uri := range []string{"file:///srv/x", "note:open/x", "Team://Acme/x"} {
		if !allows.Decide(ada, target(t, "resources/"+uri)).Allowed {
			t.Errorf("%s is not allowed", uri)
		}
	}
	for _, uri := range []string{"file:///srv/etc/x", "note:open/secret/x", "urn:a:b", "mailto:etc@x", "team://beta/acme/"} {
		if one := target(t, "resources/"+uri); !denies.Decide(ada, one).Allowed || !forbids.Explain(ada, one, nil, time.Now()).Allowed {
			t.Errorf("%s is something else, and is refused", uri)
		}
	}
}

// A misspelt variable is answered with the variables that exist.
func TestConditionsSayWhichVariablesThereAre(t *testing.T) {
	t.Parallel()
	_, err := access.Parse([]byte(`conditions: [{on: tools/a, when: 'principle.name == "x"'}]`))
	if err == nil || !strings.Contains(err.Error(), "there are args, door, name, now, principal.name, ") || strings.Contains(err.Error(), "string,") {
		t.Errorf("%v", err)
	}
}

// A reader requests the same page for all of these, so a rule about one is about each.
func TestPagesHaveOneName(t *testing.T) {
	t.Parallel()
	ada := gateway.Principal{Name: "ada"}
	for _, rule := range []string{"https://localhost/secret/x", "https://localhost/secret/*", "HTTPS://LocalHost:443/secret/*", "https://localhost/secret/x#part", "https://*/secret/*", "https://localhost:/%73ecret/x?"} {
		denies := parse(t, `{roles: {a: {allow: ["resources/*"], deny: ["resources/`+rule+`"]}}, principals: {ada: {roles: [a]}}}`)
		allows := parse(t, `{roles: {a: {allow: ["resources/`+rule+`", "resources/note:*"]}}, principals: {ada: {roles: [a]}}}`)
		for _, uri := range []string{
			"https://localhost/secret/x", "https://localhost:443/secret/x", "https://localhost:/secret/x", "https://localhost:0443/secret/x", "https://localhost/secret/x#a", "https://localhost/secret/x?", "https://localhost/secret/x?#",
			"https://LOCALHOST/secret/%78", "https://localhost//secret/x", "https://localhost./secret/x", "https://localhost/open/../secret/x", "https://localhost/open/%2e%2e/secret/x", "https://ｌｏｃａｌｈｏｓｔ/secret/x",
			"https://user@localhost/secret/x", `https:\\localhost\secret\x`, "https:localhost/secret/x", "https://localhost/sec\nret/x", "https://localhost/%73ecret%2Fx",
		} {
			if denies.Decide(ada, target(t, "resources/"+uri)).Allowed {
				t.Errorf("%s does not deny %q", rule, uri)
			}
		}
		// A rule that allows has to fit the URI as it is written, too.
		written := strings.Replace(rule, "*", "x", 1)
		if strings.HasPrefix(rule, "https://*") {
			written = "https://localhost/secret/x"
		}
		for _, uri := range []string{written, "note:a", "note:a?b#c"} {
			if !allows.Decide(ada, target(t, "resources/"+uri)).Allowed {
				t.Errorf("%s does not allow %q", rule, uri)
			}
		}
		for _, uri := range []string{"https://localhost/open/x", "https://localhost:8443/secretx", "https://example.com/open?next=/../secretx"} {
			if !denies.Decide(ada, target(t, "resources/"+uri)).Allowed {
				t.Errorf("%s denies %q", rule, uri)
			}
			if allows.Decide(ada, target(t, "resources/"+uri)).Allowed {
				t.Errorf("%s allows %q", rule, uri)
			}
		}
	}
}
