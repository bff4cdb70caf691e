package identity_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

const resource = "https://mcp.example/mcp"

func issuer(i *issuertest.Issuer) identity.Issuer {
	return identity.Issuer{
		Issuer:     oauth.Issuer{URL: i.URL, Audience: []string{resource}},
		ScopeRoles: map[string][]string{"mcp:call": {"analyst"}, "mcp:admin": {"admin"}, "offline_access": nil},
		First:      []string{"mcp:call"},
	}
}

func who(t *testing.T, a *identity.Authenticator, h http.Header) (gateway.Principal, error) {
	t.Helper()
	return a.Authenticate(t.Context(), gateway.Credentials{Header: h, Method: "POST", Host: "mcp.example", Path: "/mcp", Secure: true})
}

func challengeOf(err error) string {
	var c gateway.Challenge
	errors.As(err, &c)
	return strings.Join(c, " | ")
}

const (
	where   = `resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp"`
	first   = `scope="mcp:call"`
	nothing = "Bearer " + where + ", " + first
	wrong   = `Bearer error="invalid_token", ` + where + ", " + first
	several = `Bearer error="invalid_request", ` + where
)

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	custom := identity.Header("X-Badge", func(_ context.Context, value string, c *gateway.Credentials) (gateway.Principal, error) {
		if value != "blue" || c.Path != "/mcp" {
			return gateway.Principal{}, fault.New(fault.Unauthenticated, "another badge is needed")
		}
		return gateway.Principal{Name: "visitor", Credential: "badge"}, nil
	})
	open := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(i)}, Anonymous: true}, custom)
	closed := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(i)}}, custom)
	good := i.Token(resource, nil)
	late := i.Token(resource, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	bear := func(values ...string) http.Header { return http.Header{"Authorization": values} }
	for name, c := range map[string]struct {
		shown     http.Header
		who       string // empty for nobody
		challenge string
		reason    fault.Reason
	}{
		"token":                    {bear("Bearer " + good), "anna", "", ""},
		"small letters":            {bear("bearer " + good), "anna", "", ""},
		"more blanks":              {bear(" Bearer   " + good + " "), "anna", "", ""},
		"an expired token":         {bear("Bearer " + late), "", wrong, fault.Unauthenticated},
		"another text":             {bear("Bearer x"), "", wrong, fault.Unauthenticated},
		"no token":                 {bear("Bearer"), "", nothing, fault.Unauthenticated},
		"no token, blank":          {bear("Bearer "), "", nothing, fault.Unauthenticated},
		"empty header":             {bear(""), "", nothing, fault.Unauthenticated},
		"another scheme":           {bear("Basic YTpi"), "", nothing, fault.Unauthenticated},
		"unbound as DPoP":          {bear("DPoP " + good), "", wrong, fault.Unauthenticated},
		"two headers":              {bear("Bearer "+good, "Bearer "+good), "", several, fault.InvalidRequest},
		"two tokens":               {bear("Bearer " + good + ", Bearer " + good), "", several, fault.InvalidRequest},
		"a long header":            {bear("Bearer " + strings.Repeat("a", 20_000)), "", several, fault.InvalidRequest},
		"a long token":             {bear("Bearer " + strings.Repeat("a", 9_000)), "", wrong, fault.Unauthenticated},
		"an API key without any":   {bear("Bearer bb_aaaaaaaa_" + strings.Repeat("a", 32)), "", wrong, fault.Unauthenticated},
		"a badge":                  {http.Header{"X-Badge": {"blue"}}, "visitor", "", ""},
		"another badge":            {http.Header{"X-Badge": {"red"}}, "", nothing, fault.Unauthenticated},
		"two badges":               {http.Header{"X-Badge": {"blue", "blue"}}, "", several, fault.InvalidRequest},
		"a badge and a token":      {http.Header{"X-Badge": {"blue"}, "Authorization": {"Bearer " + good}}, "", several, fault.InvalidRequest},
		"a badge and a bad scheme": {http.Header{"X-Badge": {"blue"}, "Authorization": {"Basic x"}}, "", several, fault.InvalidRequest},
		"a cookie":                 {http.Header{"Cookie": {"access_token=" + good}}, "anonymous", nothing, fault.Unauthenticated},
		"nothing":                  {http.Header{}, "anonymous", nothing, fault.Unauthenticated},
	} {
		for _, a := range []*identity.Authenticator{open, closed} {
			want := c.who
			if want == "anonymous" && a == closed {
				want = ""
			}
			p, err := who(t, a, c.shown)
			if p.Name != want || (err == nil) != (want != "") {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
			if err == nil {
				continue
			}
			if got := challengeOf(err); got != c.challenge || !fault.Is(err, c.reason) {
				t.Errorf("%s: %v, challenge %s", name, err, got)
			}
			if f := fault.From(err); strings.Contains(f.Message, good) || strings.Contains(err.Error(), good) || strings.Contains(err.Error(), late) {
				t.Errorf("%s: the token is in the error: %v", name, err)
			}
		}
	}
	p, err := open.Authenticate(t.Context(), gateway.Credentials{Bearer: good})
	if err != nil || p.Name != "anna" {
		t.Errorf("over stdio: %+v, %v", p, err)
	}
}

func TestTokenBringsRoles(t *testing.T) {
	t.Parallel()
	one, other := issuertest.New(t), issuertest.New(t)
	second := issuer(other)
	second.ScopeRoles, second.First = nil, nil
	a := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(one), second}})
	for i, want := range map[*issuertest.Issuer]string{one: "[analyst admin]", other: "[]"} {
		p, err := who(t, a, http.Header{"Authorization": {"Bearer " + i.Token(resource, map[string]any{"scope": "mcp:call mcp:admin x"})}})
		if err != nil || fmt.Sprint(p.Roles) != want || p.Credential != "oauth "+i.URL || p.Expires.IsZero() {
			t.Errorf("%+v, %v", p, err)
		}
	}
	p, err := who(t, a, http.Header{"Authorization": {"Bearer " + one.Token(resource, map[string]any{"scope": nil})}})
	if err != nil || p.Scopes == nil || len(p.Roles) > 0 {
		t.Errorf("without scopes: %+v, %v", p, err)
	}
}

func TestProofsAreAskedFor(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	cfg := issuer(i)
	cfg.RequireDPoP = true
	a := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{cfg}})
	_, err := who(t, a, http.Header{})
	const algs = `algs="RS256 PS256 ES256 EdDSA"`
	if got := challengeOf(err); got != nothing+" | DPoP "+algs+", "+where+", "+first {
		t.Errorf("nothing shown: %s", got)
	}
	key := issuertest.NewKey("ES256", "")
	token := i.Token(resource, map[string]any{"cnf": map[string]any{"jkt": key.Thumbprint()}})
	proof := key.Proof("POST", resource, token, nil, nil)
	shown := http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
	if p, err := who(t, a, shown); err != nil || p.Name != "anna" {
		t.Errorf("with a proof: %+v, %v", p, err)
	}
	_, err = who(t, a, shown)
	if got := challengeOf(err); got != `DPoP error="invalid_dpop_proof", `+algs {
		t.Errorf("the proof again: %v: %s", err, got)
	}
}

func TestInsufficientScope(t *testing.T) {
	t.Parallel()
	a := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(issuertest.New(t))}})
	want := `Bearer error="insufficient_scope", scope="a b", ` + where
	if got := a.InsufficientScope("a", "b"); len(got) != 1 || got[0] != want {
		t.Errorf("%s", got)
	}
}

func TestWithoutIssuersTheChallengeIsPlain(t *testing.T) {
	t.Parallel()
	a := authenticator(t, nil, identity.Settings{})
	for shown, want := range map[string]string{"": "Bearer", "Bearer x": `Bearer error="invalid_token"`} {
		h := http.Header{}
		if shown != "" {
			h.Set("Authorization", shown)
		}
		if _, err := who(t, a, h); challengeOf(err) != want {
			t.Errorf("%q: %v: %s", shown, err, challengeOf(err))
		}
	}
	fresh := identity.New()
	t.Cleanup(fresh.Close)
	if _, err := fresh.Authenticate(t.Context(), gateway.Credentials{}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("before Configure: %v", err)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	a := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(i)}})
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	for _, path := range []string{identity.MetadataPath, identity.MetadataPath + "/mcp"} {
		w := get("GET", path)
		var doc map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Fatalf("%s: %d %v", path, w.Code, err)
		}
		if doc["resource"] != resource || fmt.Sprint(doc["authorization_servers"]) != "["+i.URL+"]" || fmt.Sprint(doc["scopes_supported"]) != "[mcp:admin mcp:call]" || fmt.Sprint(doc["bearer_methods_supported"]) != "[header]" {
			t.Errorf("%s: %v", path, doc)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", identity.MetadataPath + "/graphql", 404}, {"GET", identity.MetadataPath + "x", 404}, {"POST", identity.MetadataPath, 405},
		{"HEAD", identity.MetadataPath, 200}, {"OPTIONS", identity.MetadataPath, 204},
	} {
		if w := get(c.method, c.path); w.Code != c.status {
			t.Errorf("%s %s: %d", c.method, c.path, w.Code)
		}
	}
	none := authenticator(t, nil, identity.Settings{})
	w := httptest.NewRecorder()
	if none.ServeHTTP(w, httptest.NewRequest("GET", identity.MetadataPath, nil)); w.Code != 404 {
		t.Errorf("without issuers: %d", w.Code)
	}
}

// Invalid settings are refused, and the earlier ones stay in force.
func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	a := authenticator(t, nil, identity.Settings{Issuers: []identity.Issuer{issuer(i)}})
	elsewhere, named, scope := issuer(issuertest.New(t)), issuer(i), issuer(i)
	elsewhere.Audience = []string{"https://other.example/mcp"}
	named.Audience = []string{"api://busbar"}
	scope.ScopeRoles = map[string][]string{`a"b`: nil}
	for name, s := range map[string]identity.Settings{
		"one issuer twice":         {Issuers: []identity.Issuer{issuer(i), issuer(i)}},
		"two resources":            {Issuers: []identity.Issuer{issuer(i), elsewhere}},
		"no resource":              {Issuers: []identity.Issuer{named}},
		"a scope with a quote":     {Issuers: []identity.Issuer{scope}},
		"a certificate by nothing": {Certificates: []identity.Certificate{{Principal: "x"}}},
		"a certificate by two":     {Certificates: []identity.Certificate{{URI: "a", DNS: "b"}}},
		"two stars":                {Certificates: []identity.Certificate{{URI: "a*b*"}}},
	} {
		if err := a.Configure(s); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := who(t, a, http.Header{"Authorization": {"Bearer " + i.Token(resource, nil)}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := a.Configure(identity.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, err := who(t, a, http.Header{"Authorization": {"Bearer " + i.Token(resource, nil)}}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("without issuers: %v", err)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("spiffe://corp.example/agents/planner")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := url.Parse("spiffe://corp.example/agents/a/b")
	if err != nil {
		t.Fatal(err)
	}
	a := authenticator(t, nil, identity.Settings{Anonymous: true, Certificates: []identity.Certificate{
		{URI: "spiffe://corp.example/agents/*", Tenant: "acme", Roles: []string{"agent"}, Program: true},
		{DNS: "*.svc.example", Principal: "service"},
		{Subject: "Ada Lovelace", Principal: "ada"},
		{Subject: "*"},
	}})
	end := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		cert *x509.Certificate
		want string
	}{
		"URI":       {&x509.Certificate{URIs: []*url.URL{uri}, NotAfter: end}, "acme/planner [agent] true"},
		"deeper":    {&x509.Certificate{URIs: []*url.URL{deeper}}, ""},
		"DNS":       {&x509.Certificate{DNSNames: []string{"other.example", "a.svc.example"}}, "/service [] false"},
		"subdomain": {&x509.Certificate{DNSNames: []string{"a.b.svc.example"}}, ""},
		"subject":   {&x509.Certificate{Subject: pkix.Name{CommonName: "Ada Lovelace"}}, "/ada [] false"},
		"any":       {&x509.Certificate{Subject: pkix.Name{CommonName: "bob"}}, "/bob [] false"},
		"anonymous": {&x509.Certificate{Subject: pkix.Name{CommonName: "anonymous"}}, ""},
		"unprinted": {&x509.Certificate{Subject: pkix.Name{CommonName: "a\nb"}}, ""},
		"nothing":   {&x509.Certificate{}, ""},
	} {
		p, err := a.Authenticate(t.Context(), gateway.Credentials{Header: http.Header{}, Certificate: c.cert})
		got := ""
		if err == nil {
			got = fmt.Sprint(p.Tenant+"/"+p.Name, " ", p.Roles, " ", p.Program)
		}
		if got != c.want || err != nil && challengeOf(err) != `Bearer error="invalid_token"` {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
