package authserver_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authserver"
)

// TestLogin logs in, renews the login, and reads the token as an edge does.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.attempt(w.newClient(t))
	page := a.page(t)
	for _, says := range []string{"Probe", resource, "127.0.0.1:33418", "ada", "tenant beta", "mcp:call"} {
		if !strings.Contains(page.body, says) {
			t.Errorf("the login page does not say %q", says)
		}
	}
	if strings.Contains(page.body, "<script") {
		t.Error("the login page has a script")
	}
	got := a.exchange(t, a.code(t))
	c := claims(t, got)
	if c["iss"] != w.issuer || c["sub"] != "ada" || c["aud"] != resource || c["client_id"] != a.client || c["scope"] != "mcp:call mcp:read" || c["jti"] == "" {
		t.Errorf("claims %v", c)
	}
	if life := c["exp"].(float64) - c["iat"].(float64); life != 300 {
		t.Errorf("the token lives for %v s", life)
	}
	raw := got.json()["access_token"].(string)
	jws, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(do(t, w.client, http.MethodGet, w.issuer+"/jwks", "").body), &set); err != nil {
		t.Fatal(err)
	}
	header := jws.Signatures[0].Header
	if header.ExtraHeaders["typ"] != "at+jwt" || len(set.Keys) != 1 || set.Keys[0].KeyID != header.KeyID || !set.Keys[0].IsPublic() {
		t.Errorf("header %v, keys %v", header, set.Keys)
	}
	if _, err := jws.Verify(set.Keys[0]); err != nil {
		t.Error(err)
	}

	next := a.refresh(t, got.json()["refresh_token"].(string), "scope", "mcp:read")
	if c := claims(t, next); c["scope"] != "mcp:read" || c["sub"] != "ada" {
		t.Errorf("renewed as %v", c)
	}
	next = a.refresh(t, next.json()["refresh_token"].(string))
	if c := claims(t, next); c["scope"] != "mcp:call mcp:read" {
		t.Errorf("renewed as %v", c)
	}
}

// TestLess gives what the user leaves ticked, and a refresh token for a client that keeps one.
func TestLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.register(t, map[string]any{"redirect_uris": []string{callback}}).json()["client_id"].(string)
	a := w.attempt(id, "resource", "-", "scope", "-")
	got := a.exchange(t, a.code(t, "scope", "mcp:read", "user", "bob"), "resource", "-")
	if c := claims(t, got); c["scope"] != "mcp:read" || c["sub"] != "bob" || c["aud"] != resource || got.json()["scope"] != "mcp:read" {
		t.Errorf("claims %v, says %s", c, got.body)
	}
	if got.json()["refresh_token"] != nil {
		t.Error("a refresh token for a client that did not ask")
	}
	// A scope that was not asked for is not added by the form.
	a = w.attempt(id, "scope", "mcp:read offline_access")
	if c := claims(t, a.exchange(t, a.code(t))); c["scope"] != "mcp:read" {
		t.Errorf("claims %v", c)
	}
	// The port of a program on this machine is whichever was free.
	a = w.attempt(id, "redirect_uri", "http://127.0.0.1:1/callback", "resource", "HTTP://127.0.0.1:8000/mcp")
	claims(t, a.exchange(t, a.code(t)))
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		r := do(t, w.client, http.MethodGet, w.issuer+path, "", "Origin", "http://localhost:6274")
		m := r.json()
		if r.StatusCode != http.StatusOK || m["issuer"] != w.issuer || m["client_id_metadata_document_supported"] != true || m["authorization_response_iss_parameter_supported"] != true {
			t.Errorf("%s: %s %s", path, r.Status, r.body)
		}
		if r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: web pages cannot read it", path)
		}
	}
	if r := do(t, w.client, http.MethodGet, w.issuer+"/token", ""); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of the token endpoint: %s", r.Status)
	}
	if r := do(t, w.client, http.MethodOptions, w.issuer+"/token", "", "Origin", "http://localhost:6274"); r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("preflight: %s %v", r.Status, r.Header)
	}
	// No page of another origin may read the login page.
	a := w.attempt(w.newClient(t))
	if h := a.page(t).Header; h.Get("Access-Control-Allow-Origin") != "" {
		t.Error("any web page may read the login page")
	}
}

// TestRestart keeps key and registrations, and forgets logins.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := newWorldAt(t, dir, "127.0.0.1:0"), newWorldAt(t, dir, "127.0.0.1:0")
	id := first.newClient(t)
	keys := func(w *world) string { return do(t, w.client, http.MethodGet, w.issuer+"/jwks", "").body }
	if keys(first) != keys(second) {
		t.Error("the keys differ")
	}
	a := second.attempt(id)
	claims(t, a.exchange(t, a.code(t)))
	path := filepath.Join(dir, "oauth-key.pem")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v %v", info.Mode(), err)
	}
	for name, spoil := range map[string]func() error{
		"others may read": func() error { return os.Chmod(path, 0o644) },
		"no PEM":          func() error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, err = authserver.New(authserver.Config{Listener: l, Dir: dir})
		_ = l.Close()
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := authserver.New(authserver.Config{Listener: l, Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "public") {
		t.Errorf("a public address: %v", err)
	}
}
