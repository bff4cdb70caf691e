package edge_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// named takes the bearer token as the name of the principal.
type named struct{}

func (named) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Anonymous, nil
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme"}, nil
}

// An edge with a policy shows and does only what it allows, and follows the file.
func TestPolicyOfAnEdge(t *testing.T) {
	t.Parallel()
	w := start(t)
	g := w.govern(t, 1, `
roles: {few: {allow: [tools/echo, tools/safe], deny: [tools/safe]}, all: {allow: ["*"]}}
principals: {ada: {tenant: acme, roles: [few]}, root: {tenant: acme, roles: [all]}}
services: {svc: {offers: ["*"], cache_for_all: true, timeout: 2m}}
`)
	h := g.doors[0]
	ask := func(who, method, path, body string) (int, string) { return g.ask(0, who, method, path, body) }
	list := func(who string) int {
		_, body := ask(who, http.MethodGet, "/tools", "")
		return strings.Count(body, `"description"`)
	}
	if n := list("ada"); n != 1 {
		_, body := ask("ada", http.MethodGet, "/tools", "")
		t.Errorf("ada sees %d tools: %s", n, body)
	}
	if n := list(""); n != 0 {
		t.Errorf("nobody sees %d tools", n)
	}
	if n := list("root"); n < 10 {
		t.Errorf("root sees %d tools", n)
	}
	if code, body := ask("ada", http.MethodPost, "/tools/echo", `{}`); code != http.StatusOK {
		t.Errorf("what is allowed: %d %s", code, body)
	}
	// A denied tool, one that is not allowed and one that does not exist get the same
	// answer.
	_, none := ask("ada", http.MethodPost, "/tools/none", `{}`)
	for _, tool := range []string{"safe", "number"} {
		if code, body := ask("ada", http.MethodPost, "/tools/"+tool, `{}`); code != http.StatusNotFound || strings.ReplaceAll(body, tool, "none") != none {
			t.Errorf("%s: %d %s, and one that is not there: %s", tool, code, body, none)
		}
	}
	if _, body := ask("ada", http.MethodGet, "/resources", ""); strings.Contains(body, `"uri"`) {
		t.Errorf("resources are listed: %s", body)
	}
	if _, body := ask("root", http.MethodGet, "/resources", ""); !strings.Contains(body, `"uri"`) {
		t.Errorf("resources are not listed: %s", body)
	}
	if _, body := get(t, h, "/readyz"); !strings.Contains(body, "access: policy "+g.live[0].Now().Digest()[:12]+"\n") {
		t.Errorf("%s", body)
	}
	g.put("roles: {")
	bustest.Eventually(t, "the edge says that the file is broken", func() bool {
		code, body := get(t, h, "/readyz")
		return code == http.StatusOK && strings.Contains(body, "cannot be used since")
	})
	if list("ada") != 1 {
		t.Error("the last good policy does not hold")
	}
	g.put("roles: {few: {allow: [tools/echo, tools/safe]}}\nprincipals: {ada: {tenant: acme, roles: [few]}}")
	bustest.Eventually(t, "the new policy holds", func() bool { return list("ada") == 2 && list("root") == 0 })
	metrics := httptest.NewRecorder()
	g.edges[0].MetricsHandler().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if s := metrics.Body.String(); !strings.Contains(s, "busbar_access_broken 0") || !strings.Contains(s, "busbar_access_policy ") {
		t.Error("the figures are missing")
	}
}
