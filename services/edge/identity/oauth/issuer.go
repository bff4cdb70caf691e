package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/busbar-mcp/busbar/libs/listener"
)

// Issuer is an authorization server whose tokens are accepted.
type Issuer struct {
	// URL is the issuer's identifier, byte for byte as in iss of its tokens.
	URL string
	// Audience are the audiences that mean this server. The first is usually the URL of the
	// MCP endpoint.
	Audience []string
	// Algorithms are those that it signs with; empty means all of Algorithms.
	Algorithms []string
	// Lenient accepts tokens of type JWT or without a type, which many servers issue, instead
	// of only at+jwt, which RFC 9068 demands.
	Lenient bool
	// Principal, Tenant and Roles name claims, or paths such as realm_access.roles. The
	// default of Principal is sub. Without Tenant, tokens have no tenant; without Roles, only
	// the policy gives roles.
	Principal, Tenant, Roles string
	// JWKS is the URL of its keys; empty means the one in its metadata.
	JWKS string
	// Introspection configures the check of opaque tokens; nil means that they are refused.
	Introspection *Introspection
	// RequireDPoP refuses tokens that are not bound to a key of their client.
	RequireDPoP bool
}

// Introspection configures the check of opaque tokens at the issuer (RFC 7662).
type Introspection struct {
	// URL of the endpoint; empty means the one in the metadata.
	URL string
	// ClientID and Secret are this server's credentials at the issuer.
	ClientID, Secret string
}

// Algorithms are the allowed signature algorithms of tokens.
var Algorithms = []string{"RS256", "PS256", "ES256", "EdDSA"}

// issuer is an Issuer in use.
type issuer struct {
	cfg      Issuer
	audience audiences
	source   *source
	keys     *keySet
	// asking has a slot for each concurrent question.
	asking chan struct{}
}

// Check returns an error if the configuration is not valid.
func (cfg Issuer) Check() error {
	urls := []string{cfg.URL}
	if cfg.JWKS != "" {
		urls = append(urls, cfg.JWKS)
	}
	if q := cfg.Introspection; q != nil {
		if q.ClientID == "" || q.Secret == "" {
			return fmt.Errorf("issuer %s: introspection needs a client id and its secret", cfg.URL)
		}
		if q.URL != "" {
			urls = append(urls, q.URL)
		}
	}
	for _, u := range urls {
		if err := checkURL(u); err != nil {
			return fmt.Errorf("issuer %q: %w", cfg.URL, err)
		}
	}
	if len(cfg.Audience) == 0 || slices.Contains(cfg.Audience, "") {
		return fmt.Errorf("issuer %s has no audience; set it to the URL of the MCP endpoint, so that tokens for other servers are refused", cfg.URL)
	}
	for _, a := range cfg.Algorithms {
		if !slices.Contains(Algorithms, a) {
			return fmt.Errorf("issuer %s: algorithm %q is not supported; use one of %s", cfg.URL, a, strings.Join(Algorithms, ", "))
		}
	}
	return nil
}

func newIssuer(cfg Issuer) *issuer {
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = Algorithms
	}
	if cfg.Principal == "" {
		cfg.Principal = "sub"
	}
	i := &issuer{cfg: cfg, audience: newAudiences(cfg.Audience), source: newSource(cfg.URL, cfg.JWKS)}
	if cfg.Introspection != nil {
		i.asking = make(chan struct{}, maxAsking)
	}
	i.keys = newKeySet(i.source.keys)
	return i
}

// inherit takes over the keys of the issuer from its previous configuration.
func (i *issuer) inherit(before *issuer) {
	if before == nil || before.cfg.JWKS != i.cfg.JWKS {
		return
	}
	i.keys.close()
	i.source, i.keys = before.source, before.keys
}

// checkURL refuses a URL from which keys would travel unencrypted, except on this machine.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return errors.New("it must be a URL such as https://id.example.com")
	case u.Scheme == "https" || u.Scheme == "http" && listener.IsLoopbackHost(u.Hostname()):
		return nil
	}
	return errors.New("it must be https; plain http is allowed only on this machine")
}

// acceptHeader checks a token's header before any key is looked up.
func (i *issuer) acceptHeader(h *header) error {
	switch {
	case !slices.Contains(i.cfg.Algorithms, h.Alg):
		return bad("algorithm is not one of this issuer's")
	case h.Crit != nil:
		return bad("crit is not supported")
	case h.Kid == "":
		return bad("kid is missing")
	case h.Cty != "":
		return bad("a token in a token")
	}
	switch strings.TrimPrefix(strings.ToLower(h.Typ), "application/") {
	case "at+jwt":
		return nil
	case "", "jwt":
		if i.cfg.Lenient {
			return nil
		}
		return bad("type is not at+jwt; if the issuer does not issue that type, configure it with typ: lenient")
	}
	return bad("its type says that it is not an access token")
}

// signer finds the key that signed a token. The error is a *fault.Error.
func (i *issuer) signer(ctx context.Context, c *compact) (*key, error) {
	keys, err := i.keys.find(ctx, c.header.Kid)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.fits(c.header.Alg) && signed(c, k.public) {
			return k, nil
		}
	}
	return nil, bad("signature is not the issuer's")
}

// signed reports whether a key made the signature of a JWS, with the key's algorithm.
func signed(c *compact, public any) bool {
	jws, err := jose.ParseSignedCompact(c.whole, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(c.header.Alg)})
	if err != nil {
		return false
	}
	_, err = jws.Verify(public)
	return err == nil
}

// minRSA is the smallest modulus of an RSA key, in bits.
const minRSA = 2048

// suits reports whether a key has the type that an algorithm needs.
func suits(alg string, public any) bool {
	switch p := public.(type) {
	case *rsa.PublicKey:
		return (alg == "RS256" || alg == "PS256") && p.N.BitLen() >= minRSA
	case *ecdsa.PublicKey:
		return alg == "ES256" && p.Curve.Params().Name == "P-256"
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
