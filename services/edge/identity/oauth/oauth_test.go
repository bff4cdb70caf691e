package oauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const audience = "https://mcp.example/mcp"

func verifier(t *testing.T, issuers ...oauth.Issuer) *oauth.Verifier {
	t.Helper()
	v, err := oauth.New(issuers, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func of(i *issuertest.Issuer) oauth.Issuer {
	return oauth.Issuer{URL: i.URL, Audience: []string{audience}}
}

func verify(t *testing.T, v *oauth.Verifier, token string) error {
	t.Helper()
	_, err := v.Verify(t.Context(), oauth.Request{Token: token, Method: "POST", Host: "mcp.example", Path: "/mcp", Secure: true})
	return err
}

func unauthenticated(err error) bool {
	var p *oauth.Problem
	return fault.Is(err, fault.Unauthenticated) && errors.As(err, &p) && p.Code == "invalid_token"
}

func TestTokenSaysWho(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	cfg := of(i)
	cfg.Tenant, cfg.Roles = "org", "realm_access.roles"
	v := verifier(t, cfg)
	for _, alg := range oauth.Algorithms {
		raw := i.Key(alg+"-1").Token(nil, i.Claims(audience, map[string]any{
			"org": "acme", "realm_access": map[string]any{"roles": []string{"analyst"}}, "scope": "a b",
		}))
		for range 2 { // verified, then remembered
			got, err := v.Verify(t.Context(), oauth.Request{Token: raw})
			if err != nil {
				t.Fatalf("%s: %v", alg, err)
			}
			if got.Principal != "anna" || got.Tenant != "acme" || fmt.Sprint(got.Scopes, got.Roles) != "[a b] [analyst]" || got.Program {
				t.Errorf("%s: %+v", alg, got)
			}
		}
	}
	if i.Reads.Load() != 1 {
		t.Errorf("keys were read %d times", i.Reads.Load())
	}
}

// TestProgramsAndPeople tells tokens of programs, as issuers make them by client
// credentials, from tokens of people.
func TestProgramsAndPeople(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	for name, c := range map[string]struct {
		claims  map[string]any
		program bool
	}{
		"a person":               {nil, false},
		"RFC 9068":               {map[string]any{"client_id": "anna"}, true},
		"azp":                    {map[string]any{"client_id": nil, "azp": "anna"}, true},
		"Entra":                  {map[string]any{"idtyp": "app"}, true},
		"Auth0":                  {map[string]any{"gty": "client-credentials"}, true},
		"no client":              {map[string]any{"client_id": nil}, false},
		"a client without name":  {map[string]any{"client_id": "", "azp": ""}, false},
		"a person, as Entra has": {map[string]any{"idtyp": "user"}, false},
	} {
		got, err := v.Verify(t.Context(), oauth.Request{Token: i.Token(audience, c.claims)})
		if err != nil || got.Program != c.program {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A new key is accepted as soon as keys may be read again, by one read for all requests;
// until then it is refused at once.
func TestRotation(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	if err := verify(t, v, i.Token(audience, nil)); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		k := i.Add("ES256", fmt.Sprintf("new-%d", n))
		token := k.Token(nil, i.Claims(audience, nil))
		if err := verify(t, v, token); !unauthenticated(err) {
			t.Errorf("key %s before the next read: %v", k.ID, err)
		}
		v.Age(i.URL, 10*time.Second)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := verify(t, v, token); err != nil {
					t.Errorf("key %s: %v", k.ID, err)
				}
			})
		}
		all.Wait()
		if reads := i.Reads.Load(); reads != int64(n+2) {
			t.Errorf("%d reads after %d new keys", reads, n+1)
		}
	}
}

// Tokens of unknown keys are refused at once, without a read, if the keys were read a moment ago.
// Tokens of known keys are good meanwhile.
func TestFloodOfUnknownKeysWaitsForNothing(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	if err := verify(t, v, i.Token(audience, nil)); err != nil {
		t.Fatal(err)
	}
	key := issuertest.NewKey("ES256", "x")
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		for range 50 {
			if err := verify(t, v, i.Token(audience, nil)); err != nil {
				t.Errorf("a good token: %v", err)
			}
		}
	})
	for n := range 1000 {
		all.Go(func() {
			if err := verify(t, v, key.Token(map[string]any{"kid": fmt.Sprint("unknown-", n)}, i.Claims(audience, nil))); !unauthenticated(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	if d := time.Since(began); d > bustest.Promptly {
		t.Errorf("1000 tokens took %v", d)
	}
	if n := i.Reads.Load(); n != 1 {
		t.Errorf("%d reads", n)
	}
}

// A bounded number of requests wait for an issuer that does not answer, and all of them end with the read.
func TestRequestsThatWaitForKeysAreBounded(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	token := i.Token(audience, nil)
	hold := make(chan struct{})
	i.Answer(func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var all sync.WaitGroup
	for range oauth.MaxWaiting {
		all.Go(func() {
			if err := verify(t, v, token); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
				t.Errorf("got %v", err)
			}
		})
	}
	bustest.Eventually(t, "every place is taken", func() bool { return v.Waiting(i.URL) == oauth.MaxWaiting })
	for range 10 {
		if err := verify(t, v, token); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
			t.Errorf("beyond the bound: %v", err)
		}
		if n := v.Waiting(i.URL); n != oauth.MaxWaiting { // none of these waited until the read ended
			t.Fatalf("%d wait", n)
		}
	}
	close(hold)
	all.Wait()
	if n := v.Waiting(i.URL); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

func TestIssuerAway(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	known := verifier(t, of(i))
	token := i.Token(audience, nil)
	if err := verify(t, known, token); err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 10<<20))) },
		"inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		},
		"hangs":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"https://evil.example","jwks_uri":"https://evil.example/keys"}`))
		},
	} {
		i.Answer(answer)
		began := time.Now()
		if err := verify(t, verifier(t, of(i)), token); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(began); d > 3*time.Second+bustest.Promptly { // it has three seconds
			t.Errorf("%s: took %v", name, d)
		}
		if err := verify(t, known, i.Token(audience, nil)); err != nil {
			t.Errorf("%s: a token of a known key: %v", name, err)
		}
	}
}

// A key that its issuer withdraws takes its tokens along, including the cached ones.
func TestKeyTakenBack(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	token := i.Token(audience, nil)
	if err := verify(t, v, token); err != nil {
		t.Fatal(err)
	}
	i.Remove("ES256-1")
	v.Age(i.URL, 6*time.Minute)
	bustest.Eventually(t, "the token is refused", func() bool { return unauthenticated(verify(t, v, token)) })
}

func TestKeysAreStaleForAnHour(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	v := verifier(t, of(i))
	token := i.Token(audience, nil)
	if err := verify(t, v, token); err != nil {
		t.Fatal(err)
	}
	i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	v.Age(i.URL, time.Hour)
	if err := verify(t, v, token); err != nil {
		t.Errorf("after an hour: %v", err)
	}
	v.Age(i.URL, 6*time.Minute)
	if err := verify(t, v, token); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after an hour and six minutes: %v", err)
	}
	if err := verify(t, v, i.Token(audience, nil)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new token: %v", err)
	}
}

func TestOpaqueTokens(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	cfg := of(i)
	if err := verify(t, verifier(t, cfg), "opaque"); !unauthenticated(err) {
		t.Errorf("without introspection: %v", err)
	}
	cfg.Introspection = &oauth.Introspection{ClientID: issuertest.ClientID, Secret: issuertest.Secret}
	v := verifier(t, cfg)
	says := func(changes map[string]any) map[string]any {
		c := i.Claims(audience, changes)
		c["active"] = true
		return c
	}
	i.Opaque("good", says(nil))
	i.Opaque("endless", says(map[string]any{"exp": nil, "iss": nil}))
	i.Opaque("elsewhere", says(map[string]any{"aud": "https://other.example"}))
	i.Opaque("for nobody", says(map[string]any{"aud": nil}))
	i.Opaque("late", says(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))
	for token, good := range map[string]bool{"good": true, "endless": true, "elsewhere": false, "for nobody": false, "late": false, "unknown": false} {
		for range 2 {
			if err := verify(t, v, token); (err == nil) != good || !good && !unauthenticated(err) {
				t.Errorf("%s: %v", token, err)
			}
		}
	}
	if n := i.Asked.Load(); n != 6 {
		t.Errorf("asked %d times", n)
	}
	i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if err := verify(t, v, "another"); !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), issuertest.Secret) {
		t.Errorf("while the issuer is away: %v", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]oauth.Issuer{
		"plain http": {URL: "http://id.example", Audience: []string{audience}},
		"no URL":     {URL: "id.example", Audience: []string{audience}},
		"no issuer":  {Audience: []string{audience}},
		"audience":   {URL: "https://id.example"},
		"none":       {URL: "https://id.example", Audience: []string{audience}, Algorithms: []string{"none"}},
		"HS256":      {URL: "https://id.example", Audience: []string{audience}, Algorithms: []string{"HS256"}},
		"keys":       {URL: "https://id.example", Audience: []string{audience}, JWKS: "http://id.example/keys"},
		"secret":     {URL: "https://id.example", Audience: []string{audience}, Introspection: &oauth.Introspection{ClientID: "x"}},
	} {
		if v, err := oauth.New([]oauth.Issuer{cfg}, nil); err == nil {
			v.Close()
			t.Errorf("%s: taken", name)
		}
	}
}

func TestProofsAreBounded(t *testing.T) {
	t.Parallel()
	p := oauth.NewProofs()
	now := time.Now()
	use := func(key string, n int) error { return p.Use(key, fmt.Sprint(n), now) }
	for n := range oauth.MaxProofsOfKey {
		if err := use("a", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := use("a", -1); !fault.Is(err, fault.RateLimited) {
		t.Errorf("one more of a key: %v", err)
	}
	if err := use("b", 1); err != nil {
		t.Errorf("one of another key: %v", err)
	}
	if err := use("a", 1); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("one again: %v", err)
	}
	now = now.Add(11 * time.Minute)
	if err := use("a", 1); err != nil || p.Len() != 1 {
		t.Errorf("later: %v, %d remembered", err, p.Len())
	}
}

func FuzzAudience(f *testing.F) {
	for _, s := range []string{audience, "HTTPS://MCP.example/mcp", "https://mcp.example", "https://mcp.example/", "api://x", "https://é/", "https://a@b/"} {
		f.Add(s, audience)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if oauth.SameAudience(a, b) != oauth.SameAudience(b, a) || !oauth.SameAudience(a, a) {
			t.Error("not the same both ways")
		}
		if oauth.SameAudience(a, b) && !strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/")) {
			t.Errorf("%q is %q", a, b)
		}
	})
}

func FuzzToken(f *testing.F) {
	k := issuertest.NewKey("ES256", "x")
	f.Add(k.Token(nil, map[string]any{"iss": "https://id.example"}))
	f.Add("a.b.c")
	f.Add("e30.e30.")
	v, err := oauth.New([]oauth.Issuer{{URL: "https://id.example", Audience: []string{audience}, JWKS: "http://127.0.0.1:1"}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(v.Close)
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(t.Context(), oauth.Request{Token: token}); err == nil {
			t.Error("taken")
		}
	})
}
