package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

const callback = "http://127.0.0.1:33418/callback"

// person logs in with a browser, as a user, and leaves the scopes of each login that are
// in scopes, in order; all when there are no more.
type person struct {
	user   string
	scopes [][]string
	logins atomic.Int64
}

var (
	hidden = regexp.MustCompile(`name="login" value="([^"]+)"`)
	scoped = regexp.MustCompile(`name="scope" value="([^"]+)"`)
)

// browse is an auth.AuthorizationCodeFetcher.
func (p *person) browse(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(args.URL)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(page.Body)
	_ = page.Body.Close()
	login := hidden.FindSubmatch(raw)
	if err != nil || login == nil {
		return nil, fmt.Errorf("no login page: %s %s", page.Status, raw)
	}
	form := url.Values{"login": {html.UnescapeString(string(login[1]))}, "user": {p.user}, "answer": {"allow"}}
	for _, m := range scoped.FindAllSubmatch(raw, -1) {
		form.Add("scope", string(m[1]))
	}
	if n := int(p.logins.Add(1)) - 1; n < len(p.scopes) {
		form["scope"] = p.scopes[n]
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, args.URL[:strings.IndexByte(args.URL, '?')], strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := browser.Do(r)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	to, err := answer.Location()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", answer.Status, err)
	}
	q := to.Query()
	if e := q.Get("error"); e != "" {
		return nil, errors.New(e)
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

// logIn connects the official Go SDK's client, which logs in when it is refused.
func logIn(t *testing.T, endpoint, version string, p *person, cfg auth.AuthorizationCodeHandlerConfig) (*mcp.ClientSession, *auth.AuthorizationCodeHandler) {
	t.Helper()
	cfg.RedirectURL, cfg.AuthorizationCodeFetcher, cfg.RequestRefreshToken = callback, p.browse, true
	handler, err := auth.NewAuthorizationCodeHandler(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	sdk := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil)
	session, err := sdk.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("log in: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session, handler
}

var registration = auth.AuthorizationCodeHandlerConfig{DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
	Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "e2e", RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code", "refresh_token"}},
}}

// TestLogIn has the official Go SDK's client log in at the development server, by
// registration and by a metadata document, and step up when a scope is missing.
func TestLogIn(t *testing.T) {
	t.Parallel()
	document, trust := publishClient(t)
	p := startWith(t, []string{"SSL_CERT_FILE=" + trust, "NO_PROXY=127.0.0.1"}, "busbar", "dev", "--oauth", "--oauth-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	dev := p.awaitReady()
	for name, cfg := range map[string]auth.AuthorizationCodeHandlerConfig{
		"registered": registration,
		"document":   {ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: document}},
	} {
		for _, version := range []string{modern, legacy} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				ada := &person{user: "ada", scopes: [][]string{{"mcp:read"}}}
				session, handler := logIn(t, dev.mcp, version, ada, cfg)
				c := &client{ClientSession: session}
				if names := c.names(t); !slices.Contains(names, "analyzeText") || slices.Contains(names, "text_processor") {
					t.Errorf("with mcp:read there is %v", names)
				}
				c.call(t, "analyzeText", map[string]any{"text": "One bus. Many circuits."})
				if n := ada.logins.Load(); n != 1 {
					t.Errorf("logged in %d times", n)
				}
				// This one needs mcp:call: the client asks for it, and ada agrees.
				c.call(t, "text_processor", map[string]any{"operation": "statistics", "text": "One bus."})
				if n := ada.logins.Load(); n != 2 {
					t.Errorf("logged in %d times", n)
				}
				// The client of 2026-07-28 keeps its list for as long as the edge said.
				if names := c.names(t); version == legacy && !slices.Contains(names, "text_processor") {
					t.Errorf("with mcp:call there is %v", names)
				}
				source, err := handler.TokenSource(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				token, err := source.Token()
				if err != nil || token.RefreshToken == "" {
					t.Fatalf("no refresh token: %v", err)
				}
				for bearer, want := range map[string]int{token.AccessToken: http.StatusOK, token.AccessToken + "x": http.StatusUnauthorized, "": http.StatusUnauthorized} {
					if got := tools(t, dev.mcp, bearer); got != want {
						t.Errorf("a token of %d bytes: %d, want %d", len(bearer), got, want)
					}
				}
			})
		}
	}
	t.Run("bob", func(t *testing.T) {
		t.Parallel()
		bob := &person{user: "bob"}
		session, _ := logIn(t, dev.mcp, modern, bob, registration)
		if names := (&client{ClientSession: session}).names(t); len(names) > 0 {
			t.Errorf("bob may use %v", names)
		}
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "analyzeText", Arguments: map[string]any{"text": "x"}}); err == nil {
			t.Error("bob has called a tool")
		}
		if n := bob.logins.Load(); n != 1 {
			t.Errorf("logged in %d times", n)
		}
	})
}

// tools is the status of a list of tools, for a token.
func tools(t *testing.T, endpoint, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(endpoint, "/mcp")+"/tools", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// publishClient serves the metadata document of a client over TLS; trust is the file
// with the authority of its certificate.
func publishClient(t *testing.T) (id, trust string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"client_id": id, "client_name": "e2e", "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none",
			"grant_types": []string{"authorization_code", "refresh_token"},
		})
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	trust = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(trust, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/client.json", trust
}

// TestLogInAgain restarts the development server: what clients have stays good.
func TestLogInAgain(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	args := func(listen, login string) []string {
		return []string{"dev", "--oauth", "--oauth-listen", login, "--listen", listen, "--nats-listen", "127.0.0.1:0", "--data-dir", data}
	}
	first := start(t, "busbar", args("127.0.0.1:0", "127.0.0.1:0")...)
	dev := first.awaitReady()
	_, handler := logIn(t, dev.mcp, modern, &person{user: "ada"}, registration)
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	first.signal(syscall.SIGTERM)
	if code := first.wait(5 * time.Second); code != 0 {
		t.Errorf("exited with %d", code)
	}
	host := func(s string) string { u, _ := url.Parse(s); return u.Host }
	second := start(t, "busbar", args(host(dev.mcp), host(dev.oauth))...)
	if again := second.awaitReady(); again.mcp != dev.mcp || again.oauth != dev.oauth {
		t.Fatalf("elsewhere: %+v", again)
	}
	if got := tools(t, dev.mcp, token.AccessToken); got != http.StatusOK {
		t.Errorf("the token of before: %d", got)
	}
	// Without --oauth, in the same directory, there is no login and no policy.
	second.signal(syscall.SIGTERM)
	second.wait(5 * time.Second)
	third := start(t, "busbar", "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data)
	if plain := third.awaitReady(); plain.oauth != "" || tools(t, plain.mcp, "") != http.StatusOK {
		t.Errorf("asks for a login: %+v", plain)
	}
}
