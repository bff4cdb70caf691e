package authserver_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authserver"
)

// TestTokenAttacks tries to get a token without the right to one.
func TestTokenAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, other := w.newClient(t), w.register(t, map[string]any{"redirect_uris": []string{callback}}).json()["client_id"].(string)
	w.attempt(id).code(t) // the browser has its cookie before it opens many pages at once
	for name, c := range map[string]struct {
		changes []string
		want    string
	}{
		"wrong verifier":          {[]string{"code_verifier", strings.Repeat("a", 43)}, "invalid_grant"},
		"no verifier":             {[]string{"code_verifier", "-"}, "invalid_grant"},
		"another client":          {[]string{"client_id", other}, "invalid_grant"},
		"no client":               {[]string{"client_id", "-"}, "invalid_grant"},
		"another redirect URI":    {[]string{"redirect_uri", "https://app.example/cb"}, "invalid_grant"},
		"no redirect URI":         {[]string{"redirect_uri", "-"}, "invalid_grant"},
		"another port":            {[]string{"redirect_uri", "http://127.0.0.1:1/callback"}, "invalid_grant"},
		"another resource":        {[]string{"resource", "https://mcp.example/mcp"}, "invalid_target"},
		"the path of another":     {[]string{"resource", resource + "/x"}, "invalid_target"},
		"a secret":                {[]string{"client_secret", "x"}, "invalid_client"},
		"another code":            {[]string{"code", "x"}, "invalid_grant"},
		"no code":                 {[]string{"code", "-"}, "invalid_grant"},
		"a password":              {[]string{"grant_type", "password"}, "unsupported_grant_type"},
		"client credentials":      {[]string{"grant_type", "client_credentials"}, "invalid_client"},
		"no kind of grant":        {[]string{"grant_type", "-"}, "unsupported_grant_type"},
		"a code as refresh token": {[]string{"grant_type", "refresh_token"}, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.attempt(id)
			refused(t, a.exchange(t, a.code(t), c.changes...), c.want)
		})
	}
	t.Run("the challenge as verifier", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		refused(t, a.exchange(t, a.code(t), "code_verifier", a.query.Get("code_challenge")), "invalid_grant")
	})
	t.Run("a code after a wrong attempt", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		code := a.code(t)
		refused(t, a.exchange(t, code, "code_verifier", strings.Repeat("a", 43)), "invalid_grant")
		refused(t, a.exchange(t, code), "invalid_grant")
	})
	t.Run("a code twice ends the login", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		code := a.code(t)
		got := a.exchange(t, code)
		claims(t, got)
		refused(t, a.exchange(t, code), "invalid_grant")
		refused(t, a.refresh(t, got.json()["refresh_token"].(string)), "invalid_grant")
	})
	t.Run("a refresh token twice ends the login", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		first := a.exchange(t, a.code(t)).json()["refresh_token"].(string)
		second := a.refresh(t, first).json()["refresh_token"].(string)
		refused(t, a.refresh(t, first), "invalid_grant")
		refused(t, a.refresh(t, second), "invalid_grant")
	})
	t.Run("a refresh token of another client", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		token := a.exchange(t, a.code(t)).json()["refresh_token"].(string)
		refused(t, a.refresh(t, token, "client_id", other), "invalid_grant")
		refused(t, a.refresh(t, token), "invalid_grant")
	})
	t.Run("more scopes by a refresh token", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		token := a.exchange(t, a.code(t, "scope", "mcp:read")).json()["refresh_token"].(string)
		refused(t, a.refresh(t, token, "scope", "mcp:call"), "invalid_scope")
		refused(t, a.refresh(t, token, "resource", "https://mcp.example/mcp"), "invalid_target")
		if c := claims(t, a.refresh(t, token)); c["scope"] != "mcp:read" {
			t.Errorf("claims %v", c)
		}
	})
	t.Run("parameters elsewhere", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		q := url.Values{"grant_type": {"authorization_code"}, "code": {a.code(t)}, "client_id": {id}, "redirect_uri": {callback}, "code_verifier": {a.verifier}}.Encode()
		at := w.issuer + "/token"
		refused(t, do(t, w.client, http.MethodPost, at+"?"+q, "", "Content-Type", form), "invalid_request")
		refused(t, do(t, w.client, http.MethodPost, at, `{"grant_type":"authorization_code"}`, "Content-Type", "application/json"), "invalid_request")
		refused(t, do(t, w.client, http.MethodPost, at, q, "Content-Type", form, "Authorization", "Basic eDp5"), "invalid_client")
		refused(t, do(t, w.client, http.MethodPost, at, q+"&code=x", "Content-Type", form), "invalid_request")
		refused(t, do(t, w.client, http.MethodPost, at, q+"&x="+strings.Repeat("x", 64<<10), "Content-Type", form), "invalid_request")
	})
}

// TestLate tries codes and logins after their time.
func TestLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.attempt(w.newClient(t))
	code, page := a.code(t), a.fields(t)
	token := a.exchange(t, a.code(t)).json()["refresh_token"].(string)
	w.ahead.Store(int64(time.Minute))
	refused(t, a.exchange(t, code), "invalid_grant")
	token = a.refresh(t, token).json()["refresh_token"].(string)
	w.ahead.Store(int64(11 * time.Minute))
	if r := do(t, w.browser, http.MethodPost, w.issuer+"/authorize", page, "Content-Type", form); r.StatusCode != http.StatusBadRequest || r.Header.Get("Location") != "" {
		t.Errorf("an old login page: %s", r.Status)
	}
	users := (*w.users.Load())[1:]
	late := a.code(t)
	w.users.Store(&users) // ada is gone
	refused(t, a.exchange(t, late), "invalid_grant")
	refused(t, a.refresh(t, token), "invalid_grant")
	w.users.Store(&[]authserver.User{{Name: "ada"}})
	w.ahead.Store(int64(12 * time.Hour))
	refused(t, a.refresh(t, token), "invalid_grant")
}

// TestAuthorizeAttacks tries logins that are not in order: what cannot be told a client
// on this machine is told the person, and nobody is sent anywhere.
func TestAuthorizeAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.newClient(t)
	for name, c := range map[string]struct {
		changes []string
		// want is the error that the client is told; empty for a page.
		want string
	}{
		"no client":                {[]string{"client_id", "-"}, ""},
		"unknown client":           {[]string{"client_id", "inspector"}, ""},
		"a client that was forged": {[]string{"client_id", id[:len(id)-3] + "AAA"}, ""},
		"no redirect URI":          {[]string{"redirect_uri", "-"}, ""},
		"another host":             {[]string{"redirect_uri", "https://evil.example/callback"}, ""},
		"another path":             {[]string{"redirect_uri", callback + "/x"}, ""},
		"a query":                  {[]string{"redirect_uri", callback + "?x=1"}, ""},
		"a user":                   {[]string{"redirect_uri", "http://127.0.0.1:33418@evil.example/callback"}, ""},
		"another loopback address": {[]string{"redirect_uri", "http://127.0.0.2:33418/callback"}, ""},
		"another port of https":    {[]string{"redirect_uri", "https://app.example:8443/cb"}, ""},
		"a fragment":               {[]string{"redirect_uri", callback + "#x"}, ""},
		"a dot":                    {[]string{"redirect_uri", "http://127.0.0.1:33418/x/../callback"}, ""},
		"an error far away":        {[]string{"redirect_uri", "https://app.example/cb", "scope", "x"}, ""},
		"a token at once":          {[]string{"response_type", "token"}, "unsupported_response_type"},
		"a fragment for an answer": {[]string{"response_mode", "fragment"}, "invalid_request"},
		"no PKCE":                  {[]string{"code_challenge", "-", "code_challenge_method", "-"}, "invalid_request"},
		"plain PKCE":               {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		"plain PKCE by default":    {[]string{"code_challenge_method", "-"}, "invalid_request"},
		"a short challenge":        {[]string{"code_challenge", "abc"}, "invalid_request"},
		"another resource":         {[]string{"resource", "https://mcp.example/mcp"}, "invalid_target"},
		"no resource in it":        {[]string{"resource", ""}, "invalid_target"},
		"unknown scope":            {[]string{"scope", "root"}, "invalid_scope"},
		"without a person":         {[]string{"prompt", "none"}, "login_required"},
		"a request in a token":     {[]string{"request", "x.y.z"}, "request_not_supported"},
		"a request elsewhere":      {[]string{"request_uri", "https://evil.example"}, "request_uri_not_supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.attempt(id, c.changes...).page(t)
			if c.want == "" {
				if r.StatusCode != http.StatusBadRequest || r.Header.Get("Location") != "" || strings.Contains(r.body, "<form") {
					t.Errorf("answers %s to %s", r.Status, r.Header.Get("Location"))
				}
				framed(t, r)
				return
			}
			q := r.location()
			if r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), callback+"?") || q.Get("error") != c.want || q.Get("state") != "s&1" || q.Get("iss") != w.issuer || q.Has("code") {
				t.Errorf("answers %s to %s, want %s", r.Status, r.Header.Get("Location"), c.want)
			}
		})
	}
	t.Run("a parameter twice", func(t *testing.T) {
		t.Parallel()
		a := w.attempt(id)
		a.query.Add("redirect_uri", "https://evil.example")
		if r := a.page(t); r.StatusCode != http.StatusBadRequest || r.Header.Get("Location") != "" {
			t.Errorf("answers %s", r.Status)
		}
	})
	t.Run("a name of this machine", func(t *testing.T) {
		t.Parallel()
		r := do(t, w.browser, http.MethodGet, w.issuer+"/authorize?"+w.attempt(id).query.Encode(), "", "Host", "evil.example")
		if r.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("answers %s", r.Status)
		}
	})
	t.Run("words of the client", func(t *testing.T) {
		t.Parallel()
		evil := w.register(t, map[string]any{"client_name": `<script>alert(1)</script>"`, "redirect_uris": []string{callback}}).json()["client_id"].(string)
		if r := w.attempt(evil).page(t); r.StatusCode != http.StatusOK || strings.Contains(r.body, "<script") {
			t.Errorf("answers %s %s", r.Status, r.body)
		}
	})
}

// framed checks that a page is in nobody's frame, and runs nothing.
func framed(t *testing.T, r response) {
	t.Helper()
	csp := r.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") || r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("header %v", r.Header)
	}
}

// TestConsentAttacks answers the login page in somebody's place.
func TestConsentAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.attempt(w.newClient(t))
	framed(t, a.page(t))
	good := a.fields(t)
	other := newWorld(t) // another browser, another key
	stranger := other.attempt(other.newClient(t)).fields(t)
	for name, c := range map[string]struct {
		browser *http.Client
		body    string
		header  []string
	}{
		"without the page":       {w.browser, "user=ada&answer=allow", nil},
		"a page of another":      {w.browser, stranger, nil},
		"a page that was forged": {w.browser, strings.Replace(good, "login=", "login=x", 1), nil},
		"without its cookie":     {w.client, good, nil},
		"from another site":      {w.browser, good, []string{"Origin", "https://evil.example"}},
		"from another port":      {w.browser, good, []string{"Origin", "http://127.0.0.1:1"}},
		"from nowhere":           {w.browser, good, []string{"Origin", "null"}},
		"as browsers say":        {w.browser, good, []string{"Sec-Fetch-Site", "same-site"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := do(t, c.browser, http.MethodPost, w.issuer+"/authorize", c.body, append(c.header, "Content-Type", form)...)
			if r.StatusCode != http.StatusForbidden || r.Header.Get("Location") != "" {
				t.Errorf("answers %s to %s", r.Status, r.Header.Get("Location"))
			}
			framed(t, r)
		})
	}
	t.Run("nobody's name", func(t *testing.T) {
		t.Parallel()
		r := do(t, w.browser, http.MethodPost, w.issuer+"/authorize", a.fields(t, "user", "root"), "Content-Type", form)
		if r.StatusCode != http.StatusBadRequest || r.Header.Get("Location") != "" {
			t.Errorf("answers %s to %s", r.Status, r.Header.Get("Location"))
		}
	})
	for _, answer := range []string{"deny", "-"} {
		t.Run("denied by "+answer, func(t *testing.T) {
			t.Parallel()
			r := do(t, w.browser, http.MethodPost, w.issuer+"/authorize", a.fields(t, "answer", answer), "Content-Type", form)
			if q := r.location(); q.Get("error") != "access_denied" || q.Get("state") != "s&1" || q.Get("iss") != w.issuer || q.Has("code") {
				t.Errorf("answers %s to %s", r.Status, r.Header.Get("Location"))
			}
		})
	}
}

func TestRegistrationAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		metadata map[string]any
		want     string
	}{
		"nothing":           {map[string]any{}, "invalid_redirect_uri"},
		"a script":          {map[string]any{"redirect_uris": []string{"javascript:alert(1)"}}, "invalid_redirect_uri"},
		"data":              {map[string]any{"redirect_uris": []string{callback, "data:text/html,x"}}, "invalid_redirect_uri"},
		"plain http":        {map[string]any{"redirect_uris": []string{"http://app.example/cb"}}, "invalid_redirect_uri"},
		"a fragment":        {map[string]any{"redirect_uris": []string{callback + "#"}}, "invalid_redirect_uri"},
		"a user":            {map[string]any{"redirect_uris": []string{"https://a@app.example/"}}, "invalid_redirect_uri"},
		"a line":            {map[string]any{"redirect_uris": []string{"https://app.example/\r\nX: y"}}, "invalid_redirect_uri"},
		"no scheme":         {map[string]any{"redirect_uris": []string{"//app.example/"}}, "invalid_redirect_uri"},
		"many":              {map[string]any{"redirect_uris": strings.Split(strings.Repeat(callback+" ", 10)+callback, " ")}, "invalid_redirect_uri"},
		"a long one":        {map[string]any{"redirect_uris": []string{callback + strings.Repeat("x", 512)}}, "invalid_redirect_uri"},
		"a long name":       {map[string]any{"redirect_uris": []string{callback}, "client_name": strings.Repeat("x", 201)}, "invalid_client_metadata"},
		"a name of lines":   {map[string]any{"redirect_uris": []string{callback}, "client_name": "a\nb"}, "invalid_client_metadata"},
		"no code":           {map[string]any{"redirect_uris": []string{callback}, "grant_types": []string{"refresh_token", "client_credentials"}}, "invalid_client_metadata"},
		"another response":  {map[string]any{"redirect_uris": []string{callback}, "response_types": []string{"token"}}, "invalid_client_metadata"},
		"too large":         {map[string]any{"redirect_uris": []string{callback}, "x": strings.Repeat("x", 64<<10)}, "invalid_client_metadata"},
		"not what it seems": {map[string]any{"redirect_uris": callback}, "invalid_client_metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, w.register(t, c.metadata), c.want)
		})
	}
	for _, to := range []string{
		"ms-msdt:/id", "filesystem:https://x/y", "jar:https://x!/", "myapp:/cb", "ms-settings:privacy", "com.:/cb", ".com:/cb", "com..example:/cb", "intent://x#Intent;end", "https:app.example", "https://", "https://:443/cb",
		"http://127.0.0.1:99999/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:/cb", "https://app.example:65536/cb", "com.example.app://a@b/cb",
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			refused(t, w.register(t, map[string]any{"redirect_uris": []string{to}}), "invalid_redirect_uri")
		})
	}
	for _, to := range []string{"com.example.app:/cb", "com.example.app://cb", "cursor://anysphere/callback", "vscode://publisher.extension/cb", "http://[::1]:65535/cb", "https://app.example:8443/cb"} {
		r := w.register(t, map[string]any{"redirect_uris": []string{to}, "token_endpoint_auth_method": "client_secret_basic"})
		if m := r.json(); r.StatusCode != http.StatusCreated || m["token_endpoint_auth_method"] != "none" || m["client_secret"] != nil {
			t.Errorf("%s: %s %s", to, r.Status, r.body)
		}
	}
}

// TestFull fills what is kept of one user: the oldest go, and nobody else's.
func TestFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.newClient(t)
	bob := w.attempt(id)
	first := bob.exchange(t, bob.code(t, "user", "bob")).json()["refresh_token"].(string)
	var tokens []string
	for range authserver.MaxHeld + 1 {
		a := w.attempt(id)
		tokens = append(tokens, a.exchange(t, a.code(t)).json()["refresh_token"].(string))
	}
	if codes, families := w.Held(); codes != authserver.MaxHeld+1 || families != authserver.MaxHeld+1 {
		t.Errorf("keeps %d codes and %d logins", codes, families)
	}
	refused(t, bob.refresh(t, tokens[0]), "invalid_grant")
	for _, token := range []string{first, tokens[1], tokens[authserver.MaxHeld]} {
		claims(t, bob.refresh(t, token))
	}
	for i := range 100 { // kept nowhere
		w.register(t, map[string]any{"redirect_uris": []string{fmt.Sprintf("https://%d.example/", i)}})
	}
	if codes, families := w.Held(); codes != authserver.MaxHeld+1 || families != authserver.MaxHeld+1 {
		t.Errorf("keeps %d codes and %d logins", codes, families)
	}
}
