package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
)

// assertionType is the type of an identity assertion, which is not an access token.
const assertionType = "oauth-id-jag+jwt"

// company is an identity provider that lets its people's clients into other organizations' servers.
// It asks nobody: the other organization decides the rights.
func company(t *testing.T, at *issuertest.Issuer) *issuertest.Issuer {
	t.Helper()
	idp := issuertest.New(t)
	idp.Grant(func(form url.Values) map[string]any {
		if form.Get("grant_type") != oauthex.GrantTypeTokenExchange || form.Get("requested_token_type") != oauthex.TokenTypeIDJAG ||
			form.Get("audience") != at.URL || form.Get("resource") != resource || form.Get("subject_token") != "anna's ID token" {
			return nil
		}
		return map[string]any{
			"access_token": assertion(idp, at, nil), "issued_token_type": oauthex.TokenTypeIDJAG, "token_type": "N_A", "expires_in": 300,
		}
	})
	return idp
}

// assertion is an identity assertion of anna for a client at a server, with changes.
func assertion(idp, at *issuertest.Issuer, changes claims) string {
	c := idp.Claims(at.URL, claims{"resource": resource, "client_id": "agent", "scope": "mcp:call mcp:root"})
	for k, v := range changes {
		c[k] = v
	}
	return idp.Key("ES256-1").Token(claims{"typ": assertionType}, c)
}

// admits has the authorization server that the edge trusts take the company's
// assertions, as the extension says, and give access tokens for the edge.
func admits(t *testing.T, at, idp *issuertest.Issuer) (given *atomic.Int32) {
	t.Helper()
	given = &atomic.Int32{}
	used := map[string]bool{}
	at.Grant(func(form url.Values) map[string]any {
		parts := strings.Split(form.Get("assertion"), ".")
		if form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || len(parts) != 3 {
			return nil
		}
		var header struct{ Typ string }
		var c struct{ Iss, Aud, Sub, Resource, Jti, Client_id string }
		if decodePart(parts[0], &header) != nil || decodePart(parts[1], &c) != nil {
			return nil
		}
		if header.Typ != assertionType || c.Iss != idp.URL || c.Aud != at.URL || c.Resource != resource || c.Client_id != form.Get("client_id") || used[c.Jti] {
			return nil
		}
		used[c.Jti] = true
		given.Add(1)
		return map[string]any{
			"access_token": at.Token(resource, claims{"sub": c.Sub, "client_id": c.Client_id}), "token_type": "Bearer", "expires_in": 300,
		}
	})
	return given
}

func decodePart(s string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// TestEnterpriseManaged lets the official Go SDK's client in by its company's assertion: the edge
// says that it may come in this way, and accepts the access token, but no other token made on the
// way.
func TestEnterpriseManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	idp := company(t, w.main)
	given := admits(t, w.main, idp)
	handler, err := extauth.NewEnterpriseHandler(&extauth.EnterpriseHandlerConfig{
		IdPIssuerURL: idp.URL, IdPCredentials: &oauthex.ClientCredentials{ClientID: "agent-at-company"},
		MCPAuthServerURL: w.main.URL, MCPResourceURI: resource, MCPCredentials: &oauthex.ClientCredentials{ClientID: "agent"}, MCPScopes: []string{"mcp:call"},
		IDTokenFetcher: func(context.Context) (*oauth2.Token, error) {
			return (&oauth2.Token{}).WithExtra(map[string]any{"id_token": "anna's ID token"}), nil
		},
		HTTPClient: w.client,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + w.host + "/mcp", OAuthHandler: handler, HTTPClient: w.client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"})
	if err != nil || len(res.Content) != 1 || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "/anna") || given.Load() != 1 {
		t.Fatalf("%+v %v, %d tokens", res, err, given.Load())
	}
	// An assertion is not a token, whoever signed it and whomever it is for.
	for name, token := range map[string]string{
		"the assertion":                          assertion(idp, w.main, nil),
		"an assertion for the edge":              assertion(idp, w.main, claims{"aud": resource}),
		"an assertion by the edge's own issuer":  w.main.Key("ES256-1").Token(claims{"typ": assertionType}, w.main.Claims(resource, nil)),
		"a token of the company's":               idp.Token(resource, nil),
		"an ID token by the edge's own issuer":   w.main.Key("ES256-1").Token(claims{"typ": "JWT"}, w.main.Claims(resource, claims{"nonce": "n"})),
		"a token for the authorization server":   w.main.Token(w.main.URL, nil),
		"a token that the company says is ours":  idp.Token(resource, claims{"iss": w.main.URL}),
		"an assertion with a header of a token":  idp.Key("ES256-1").Token(nil, idp.Claims(resource, nil)),
		"an assertion of a lenient issuer's own": w.easy.Key("ES256-1").Token(claims{"typ": assertionType}, w.easy.Claims(resource, nil)),
	} {
		for _, d := range doors {
			t.Run(name+" at "+d.name, func(t *testing.T) { w.try(t, d, auth("Bearer "+token), wrong, "") })
		}
	}
}
