package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestProgramLogsIn has a program of the official Go SDK log in for itself, by client
// credentials, and step up. The policy and the audit trail know that it is a program.
func TestProgramLogsIn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.yaml")
	policy := `
roles:
  reader: {allow: [tools/analyzeText]}
  caller: {allow: ["tools/*"]}
  auditor: {audit: read}
principals:
  nightly: {tenant: acme, roles: [auditor]}
conditions:
  - {on: tools/text_processor, when: principal.program}
oauth:
  - {issuer: https://id.example.com, audience: https://mcp.example.com/mcp, scopes: {read: [reader], call: [caller]}, ask: [read]}
`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	_, dev := startDev(t, "--oauth", "--oauth-listen", "127.0.0.1:0", "--access", file)
	secret := register(t, dev.oauth, "nightly")
	handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: &oauthex.ClientCredentials{
		ClientID: "nightly", ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: secret},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil)
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: dev.mcp, OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	c := &client{ClientSession: session}
	if names := c.names(t); len(names) != 1 || names[0] != "analyzeText" {
		t.Errorf("with scope read there is %v", names)
	}
	c.call(t, "text_processor", map[string]any{"operation": "statistics", "text": "One bus."})
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the trail says that a program called", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(dev.mcp, "/mcp")+"/audit/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.AccessToken)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(raw), `"name":"text_processor"`) && strings.Contains(string(raw), `"program":true`)
	})
}

// register registers a program at the development server, and returns its secret.
func register(t *testing.T, issuer, name string) string {
	t.Helper()
	resp, err := http.Post(issuer+"/register", "application/json", strings.NewReader(`{"client_name":"`+name+`","grant_types":["client_credentials"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Secret string `json:"client_secret"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Secret == "" {
		t.Fatalf("registration: %s %v", resp.Status, err)
	}
	return answer.Secret
}
