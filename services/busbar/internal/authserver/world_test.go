package authserver_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authserver"
)

const (
	resource = "http://127.0.0.1:8000/mcp"
	callback = "http://127.0.0.1:33418/callback"
)

// world is a server with a browser.
type world struct {
	*authserver.Server
	issuer, dir string
	// browser has cookies and follows no redirect; client has none.
	browser, client *http.Client
	ahead           atomic.Int64
	users           atomic.Pointer[[]authserver.User]
}

func newWorld(t *testing.T) *world { return newWorldAt(t, t.TempDir(), "127.0.0.1:0") }

func newWorldAt(t *testing.T, dir, address string) *world {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{dir: dir}
	w.users.Store(&[]authserver.User{{Name: "ada", Note: "tenant acme"}, {Name: "bob", Note: "tenant beta"}})
	w.Server, err = authserver.New(authserver.Config{
		Listener: l, Resource: resource, Dir: dir, Users: func() []authserver.User { return *w.users.Load() },
		Scopes: func() []string { return []string{"mcp:call", "mcp:read"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.SetNow(func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) })
	done := make(chan error, 1)
	go func() { done <- w.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.browser = &http.Client{Jar: jar, Transport: transport, CheckRedirect: stay}
	w.client = &http.Client{Transport: transport, CheckRedirect: stay}
	w.issuer = w.Issuer()
	return w
}

// response is an answer that was read.
type response struct {
	*http.Response
	body string
}

func (r response) json() map[string]any {
	var m map[string]any
	_ = json.Unmarshal([]byte(r.body), &m)
	return m
}

func (r response) location() url.Values {
	u, _ := url.Parse(r.Header.Get("Location"))
	return u.Query()
}

func do(t testing.TB, c *http.Client, method, to, body string, header ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp, string(raw)}
}

const form = "application/x-www-form-urlencoded"

func (w *world) register(t testing.TB, metadata map[string]any) response {
	t.Helper()
	raw, _ := json.Marshal(metadata)
	return do(t, w.client, http.MethodPost, w.issuer+"/register", string(raw), "Content-Type", "application/json")
}

// newClient registers one.
func (w *world) newClient(t testing.TB) string {
	t.Helper()
	r := w.register(t, map[string]any{"client_name": "Probe", "redirect_uris": []string{callback, "https://app.example/cb"}, "grant_types": []string{"authorization_code", "refresh_token"}})
	id, _ := r.json()["client_id"].(string)
	if r.StatusCode != http.StatusCreated || id == "" {
		t.Fatalf("registration: %s %s", r.Status, r.body)
	}
	return id
}

// attempt is a login by a client.
type attempt struct {
	*world
	client, verifier string
	query            url.Values
}

func (w *world) attempt(client string, changes ...string) *attempt {
	a := &attempt{world: w, client: client, verifier: rand.Text() + rand.Text()}
	sum := sha256.Sum256([]byte(a.verifier))
	a.query = url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {callback}, "state": {"s&1"}, "scope": {"mcp:read mcp:call"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {resource},
	}
	change(a.query, changes)
	return a
}

// change sets parameters, or removes those whose value is "-".
func change(q url.Values, changes []string) {
	for i := 0; i < len(changes); i += 2 {
		if q.Set(changes[i], changes[i+1]); changes[i+1] == "-" {
			q.Del(changes[i])
		}
	}
}

func (a *attempt) page(t testing.TB) response {
	t.Helper()
	return do(t, a.browser, http.MethodGet, a.issuer+"/authorize?"+a.query.Encode(), "")
}

var hidden = regexp.MustCompile(`name="login" value="([^"]+)"`)

// fields are what the page's form sends when ada allows all.
func (a *attempt) fields(t testing.TB, changes ...string) string {
	t.Helper()
	p := a.page(t)
	m := hidden.FindStringSubmatch(p.body)
	if p.StatusCode != http.StatusOK || m == nil {
		t.Fatalf("no login page: %s %s %s", p.Status, p.Header.Get("Location"), p.body)
	}
	q := url.Values{"login": {html.UnescapeString(m[1])}, "user": {"ada"}, "scope": {"mcp:read", "mcp:call"}, "answer": {"allow"}}
	change(q, changes)
	return q.Encode()
}

// code is what the client is given when ada allows all.
func (a *attempt) code(t testing.TB, changes ...string) string {
	t.Helper()
	r := do(t, a.browser, http.MethodPost, a.issuer+"/authorize", a.fields(t, changes...), "Content-Type", form, "Origin", a.issuer, "Sec-Fetch-Site", "same-origin")
	if r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), a.query.Get("redirect_uri")) {
		t.Fatalf("consent: %s %s", r.Status, r.body)
	}
	q := r.location()
	if q.Get("code") == "" || q.Get("state") != "s&1" || q.Get("iss") != a.issuer {
		t.Fatalf("the client is told %v", q)
	}
	return q.Get("code")
}

// exchange takes the code.
func (a *attempt) exchange(t testing.TB, code string, changes ...string) response {
	t.Helper()
	q := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {a.client}, "redirect_uri": {a.query.Get("redirect_uri")},
		"code_verifier": {a.verifier}, "resource": {resource},
	}
	change(q, changes)
	return do(t, a.world.client, http.MethodPost, a.issuer+"/token", q.Encode(), "Content-Type", form)
}

func (a *attempt) refresh(t testing.TB, token string, changes ...string) response {
	t.Helper()
	q := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {a.client}}
	change(q, changes)
	return do(t, a.world.client, http.MethodPost, a.issuer+"/token", q.Encode(), "Content-Type", form)
}

// claims returns the claims of an access token, whose signature somebody else checks.
func claims(t testing.TB, r response) map[string]any {
	t.Helper()
	token, _ := r.json()["access_token"].(string)
	parts := strings.Split(token, ".")
	if r.StatusCode != http.StatusOK || len(parts) != 3 {
		t.Fatalf("no token: %s %s", r.Status, r.body)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// refused checks that a token request was answered with an error of OAuth.
func refused(t testing.TB, r response, code string) {
	t.Helper()
	status := http.StatusBadRequest
	if code == "invalid_client" {
		status = http.StatusUnauthorized
	}
	if m := r.json(); r.StatusCode != status || m["error"] != code || m["access_token"] != nil || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("answers %s %s, want %d %s", r.Status, r.body, status, code)
	}
}
