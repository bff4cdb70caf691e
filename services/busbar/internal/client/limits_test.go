package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
)

// The state of limits is a table, and others' limits are asked for with the token of
// the edge's data directory.
func TestAccessLimits(t *testing.T) {
	t.Parallel()
	edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/access/limits" || r.URL.Query().Has("as") && (r.Header.Get("Busbar-Audit") != "0perator" || r.URL.Query().Get("tenant") != "acme") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"principal":"anna","tenant":"acme","limits":[{"of":"principal","limit":"5/h","used":1,"left":0,"resetMs":720000},{"of":"tenant","limit":"3 at once","used":0,"left":3}]}`)
	}))
	t.Cleanup(edge.Close)
	ask := func(o client.AccessLimitsOptions) (int, string, string) {
		var out, wrong strings.Builder
		o.URL = edge.URL + "/mcp"
		code := client.RunAccessLimits(t.Context(), o, &out, &wrong)
		return code, out.String(), wrong.String()
	}
	want := "anna of tenant acme\nOF         LIMIT      USED  LEFT  ALL LEFT IN\nprincipal  5/h        1     0     12m0s\ntenant     3 at once  0     3     -\n"
	if code, out, wrong := ask(client.AccessLimitsOptions{}); code != client.ExitOK || out != want {
		t.Errorf("%d %s\n%s", code, out, wrong)
	}
	other := client.AccessLimitsOptions{As: "anna", Tenant: "acme"}
	other.NoToken = errors.New("no operator's token")
	if code, _, wrong := ask(other); code != 2 || !strings.Contains(wrong, "name that directory with --data-dir") {
		t.Errorf("without a token: %d %s", code, wrong)
	}
	other.Token = "0perator"
	other.JSON = true
	if code, out, wrong := ask(other); code != client.ExitOK || !strings.HasPrefix(out, `{"principal":"anna"`) {
		t.Errorf("as JSON: %d %s %s", code, out, wrong)
	}
	if code, _, wrong := ask(client.AccessLimitsOptions{Tenant: "acme"}); code != 2 || !strings.Contains(wrong, "--tenant needs --as") {
		t.Errorf("a tenant alone: %d %s", code, wrong)
	}
}
