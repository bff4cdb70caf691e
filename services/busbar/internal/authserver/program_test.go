package authserver_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authserver"
)

// program registers one, and returns its secret.
func (w *world) program(t testing.TB, name string) string {
	t.Helper()
	r := w.register(t, map[string]any{"client_name": name, "grant_types": []string{"client_credentials"}})
	m := r.json()
	secret, _ := m["client_secret"].(string)
	if r.StatusCode != http.StatusCreated || m["client_id"] != name || secret == "" || m["token_endpoint_auth_method"] != "client_secret_basic" {
		t.Fatalf("registration: %s %s", r.Status, r.body)
	}
	return secret
}

// own asks for a token of a program's own, by a form with changes.
func (w *world) own(t testing.TB, header []string, changes ...string) response {
	t.Helper()
	q := url.Values{"grant_type": {"client_credentials"}, "resource": {resource}}
	change(q, changes)
	return do(t, w.client, http.MethodPost, w.issuer+"/token", q.Encode(), append(header, "Content-Type", form)...)
}

func basic(id, secret string) []string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	return []string{"Authorization", r.Header.Get("Authorization")}
}

// TestProgram gives a program tokens of its own, which say that it is one.
func TestProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users.Store(&[]authserver.User{{Name: "ada"}, {Name: "nightly batch"}})
	secret := w.program(t, "nightly batch")
	for name, r := range map[string]response{
		"header":         w.own(t, basic("nightly batch", secret)),
		"body":           w.own(t, nil, "client_id", "nightly batch", "client_secret", secret),
		"header, and ID": w.own(t, basic("nightly batch", secret), "client_id", "nightly batch"),
	} {
		c := claims(t, r)
		if c["sub"] != "nightly batch" || c["client_id"] != c["sub"] || c["aud"] != resource || c["scope"] != "mcp:call mcp:read" || r.json()["refresh_token"] != nil {
			t.Errorf("%s: %v %s", name, c, r.body)
		}
	}
	if c := claims(t, w.own(t, basic("nightly batch", secret), "scope", "mcp:read", "resource", "-")); c["scope"] != "mcp:read" {
		t.Errorf("fewer scopes: %v", c)
	}
	// The same after a restart, since nothing is kept.
	if again := newWorldAt(t, w.dir, "127.0.0.1:0"); again.program(t, "ada") == secret || w.program(t, "nightly batch") != secret {
		t.Error("the secret is another, or everybody's")
	}
}

// TestProgramAttacks asks for tokens without being the program.
func TestProgramAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, bobs := w.program(t, "ada"), w.program(t, "bob")
	for name, c := range map[string]struct {
		header, changes []string
		want            string
	}{
		"nothing":               {nil, nil, "invalid_client"},
		"no secret":             {nil, []string{"client_id", "ada"}, "invalid_client"},
		"an empty one":          {basic("ada", ""), nil, "invalid_client"},
		"another's":             {basic("ada", bobs), nil, "invalid_client"},
		"nobody's name":         {basic("root", secret), nil, "invalid_client"},
		"twice":                 {basic("ada", secret), []string{"client_secret", secret}, "invalid_client"},
		"of two":                {basic("ada", secret), []string{"client_id", "bob"}, "invalid_client"},
		"not encoded":           {[]string{"Authorization", "Basic JTp4"}, nil, "invalid_client"}, // "%:x"
		"an assertion":          {basic("ada", secret), []string{"client_assertion", "x.y.z"}, "invalid_client"},
		"a web page":            {append(basic("ada", secret), "Origin", "https://evil.example"), nil, "invalid_client"},
		"as browsers say":       {append(basic("ada", secret), "Sec-Fetch-Site", "same-origin"), nil, "invalid_client"},
		"unknown scopes":        {basic("ada", secret), []string{"scope", "root"}, "invalid_scope"},
		"another resource":      {basic("ada", secret), []string{"resource", "https://mcp.example/mcp"}, "invalid_target"},
		"for a person's code":   {basic("ada", secret), []string{"grant_type", "authorization_code"}, "invalid_client"},
		"for a person's token":  {basic("ada", secret), []string{"grant_type", "refresh_token"}, "invalid_client"},
		"an identity assertion": {nil, []string{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", "x.y.z"}, "unsupported_grant_type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, w.own(t, c.header, c.changes...), c.want)
		})
	}
	program := map[string]any{"client_name": "ada", "grant_types": []string{"client_credentials"}}
	for name, changed := range map[string]map[string]any{
		"nobody":         {"client_name": "root"},
		"no name":        {"client_name": ""},
		"without secret": {"token_endpoint_auth_method": "none"},
		"with a key":     {"token_endpoint_auth_method": "private_key_jwt"},
	} {
		t.Run("registers "+name, func(t *testing.T) {
			t.Parallel()
			m := map[string]any{}
			for _, from := range []map[string]any{program, changed} {
				for k, v := range from {
					m[k] = v
				}
			}
			refused(t, w.register(t, m), "invalid_client_metadata")
		})
	}
	t.Run("a web page registers", func(t *testing.T) {
		t.Parallel()
		refused(t, do(t, w.client, http.MethodPost, w.issuer+"/register", `{"client_name":"ada","grant_types":["client_credentials"]}`, "Content-Type", "application/json", "Origin", "https://evil.example"), "access_denied")
	})
	t.Run("a user who is gone", func(t *testing.T) {
		t.Parallel()
		gone := newWorld(t)
		secret := gone.program(t, "ada")
		gone.users.Store(&[]authserver.User{{Name: "bob"}})
		refused(t, gone.own(t, basic("ada", secret)), "invalid_client")
	})
}
