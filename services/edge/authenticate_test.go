package edge_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// identified is the handler of an edge with flags; file is its policy, empty for none.
func identified(t *testing.T, f edge.IdentityFlags, file string) (h http.Handler, keys *store.APIKeys) {
	t.Helper()
	return start(t).identified(t, f, file)
}

func (w world) identified(t *testing.T, f edge.IdentityFlags, file string) (h http.Handler, keys *store.APIKeys) {
	t.Helper()
	cfg := edge.Config{Version: "1", Logger: bustest.Logger(t)}
	policy := edge.PolicyFlags{Access: file}
	closed, err := policy.OpenPolicy(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	if closed, err = f.OpenIdentity(&cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	e := w.Join(t, func(c *edge.Config) { *c = cfg })
	return e.Handler(door.Guard{Loopback: true}), store.NewAPIKeys(e.Conn)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A custom header, as the second founding document has it: X-Custom-Auth, and its refusal
// word for word.
func TestCustomHeader(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.yaml")
	write(t, file, "roles: {all: {allow: ['*']}}\nprincipals: {anna: {roles: [all]}}")
	h, keys := identified(t, edge.IdentityFlags{KeyHeader: "X-Custom-Auth"}, file)
	key, err := keys.Create(t.Context(), "x", "anna", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the key is good", func() bool {
		return ask(t, h, "POST", "/tools/echo", "{}", "X-Custom-Auth", key).Code == http.StatusOK
	})
	for _, path := range []string{"/tools/echo", "/mcp", "/graphql", "/v1"} {
		for name, header := range map[string][]string{"nothing": nil, "a wrong one": {"X-Custom-Auth", "wrong"}, "a wrong key": {"X-Custom-Auth", key + "a"}} {
			got := ask(t, h, "POST", path, "{}", header...)
			if got.Code != http.StatusUnauthorized || got.Body.String() != `{"error":"Custom authentication failed"}` || got.Header().Get("Content-Type") != "application/json" || got.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %s: %d %s", path, name, got.Code, got.Body)
			}
		}
		for name, header := range map[string][]string{"two": {"X-Custom-Auth", key, "X-Custom-Auth", key}, "another kind too": {"X-Custom-Auth", key, "Authorization", "Bearer " + key}} {
			if got := ask(t, h, "POST", path, "{}", header...); got.Code != http.StatusBadRequest {
				t.Errorf("%s: %s: %d %s", path, name, got.Code, got.Body)
			}
		}
	}
	if got := ask(t, h, "POST", "/tools/echo", "{}", "Authorization", "Bearer "+key); got.Code != http.StatusOK {
		t.Errorf("as Bearer: %d %s", got.Code, got.Body)
	}
	if got := ask(t, h, "GET", "/healthz", "{}"); got.Code != http.StatusOK {
		t.Errorf("health: %d", got.Code)
	}
	for _, name := range []string{"Authorization", "cookie", "a b", "Dpop"} {
		if _, err := (&edge.IdentityFlags{KeyHeader: name}).OpenIdentity(&edge.Config{}); err == nil {
			t.Errorf("%s is taken as a header", name)
		}
	}
}

// Without any configuration, everybody on this machine is let in, but not with a bad
// credential.
func TestNobodyNeedsAnAccountOnLoopback(t *testing.T) {
	t.Parallel()
	h, _ := identified(t, edge.IdentityFlags{}, "")
	for _, c := range []struct {
		header []string
		status int
	}{{nil, 200}, {[]string{"Authorization", "Bearer x"}, 401}, {[]string{"Authorization", "Basic x"}, 401}, {[]string{"X-Custom-Auth", "x"}, 200}} {
		if got := ask(t, h, "POST", "/tools/echo", "{}", c.header...); got.Code != c.status {
			t.Errorf("%v: %d %s", c.header, got.Code, got.Body)
		}
	}
}

// The access file says which issuers count, also when it changes.
func TestIssuersOfTheAccessFile(t *testing.T) {
	i := issuertest.New(t)
	t.Setenv("BUSBAR_TEST_SECRET", issuertest.Secret)
	file := filepath.Join(t.TempDir(), "access.yaml")
	const aud = "http://127.0.0.1:8000/mcp"
	write(t, file, "roles: {all: {allow: ['*']}}\nanonymous: [all]")
	h, _ := identified(t, edge.IdentityFlags{}, file)
	token := i.Token(aud, nil)
	if got := ask(t, h, "POST", "/tools/echo", "{}", "Authorization", "Bearer "+token); got.Code != http.StatusUnauthorized {
		t.Errorf("of nobody: %d", got.Code)
	}
	if got := ask(t, h, "POST", "/tools/echo", "{}"); got.Code != http.StatusOK {
		t.Errorf("anonymous: %d %s", got.Code, got.Body)
	}
	if got := ask(t, h, "GET", identity.MetadataPath, "{}"); got.Code != http.StatusNotFound || got.Header().Get("Busbar-Reason") != "method_not_found" || got.Header().Get("Busbar-Executed") != "no" {
		t.Errorf("metadata: %d %v", got.Code, got.Header())
	}
	write(t, file, `
roles: {all: {allow: ['*']}}
oauth:
  - {issuer: "`+i.URL+`", audience: ["`+aud+`"], scopes: {"mcp:call": [all]}, introspection: {client_id: `+issuertest.ClientID+`, secret_env: BUSBAR_TEST_SECRET}}
certificates: [{uri: "spiffe://corp/*", roles: [all]}]
`)
	bustest.Eventually(t, "the issuer counts", func() bool {
		return ask(t, h, "POST", "/tools/echo", "{}", "Authorization", "Bearer "+token).Code == http.StatusOK
	})
	i.Opaque("opaque", map[string]any{"active": true, "sub": "anna", "aud": aud, "scope": "mcp:call"})
	if got := ask(t, h, "POST", "/tools/echo", "{}", "Authorization", "Bearer opaque"); got.Code != http.StatusOK {
		t.Errorf("opaque: %d %s", got.Code, got.Body)
	}
	want := `Bearer resource_metadata="http://127.0.0.1:8000` + identity.MetadataPath + `/mcp", scope="mcp:call"`
	if got := ask(t, h, "POST", "/tools/echo", "{}"); got.Code != http.StatusUnauthorized || got.Header().Get("WWW-Authenticate") != want {
		t.Errorf("anonymous: %d %v", got.Code, got.Header())
	}
	about := ask(t, h, "POST", "/mcp", edgetest.Request("1", "server/discover", ""), "Authorization", "Bearer "+token, "MCP-Protocol-Version", mcp.Modern, "Mcp-Method", "server/discover")
	if !strings.Contains(about.Body.String(), `"`+mcp.ExtensionEnterprise+`":{}`) {
		t.Errorf("server/discover: %d %s", about.Code, about.Body)
	}
	for _, path := range []string{identity.MetadataPath, identity.MetadataPath + "/mcp"} {
		if got := ask(t, h, "GET", path, "{}"); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), i.URL) {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}
