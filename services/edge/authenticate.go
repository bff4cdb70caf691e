package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/trail"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// IdentityFlags say how callers authenticate, in addition to the policy file. The tags
// are read by kong.
type IdentityFlags struct {
	Proxy     identity.ProxyFlags `embed:""`
	KeyHeader string              `name:"auth-key-header" env:"BUSBAR_AUTH_KEY_HEADER" placeholder:"NAME" help:"Another header in which clients may send API keys, besides Authorization, such as X-Custom-Auth. An invalid key is status 401 with {\"error\":\"Custom authentication failed\"}."`

	// DevIssuer, unless nil, replaces the policy's authorization servers: the server of
	// "busbar dev --oauth".
	DevIssuer *oauth.Issuer `kong:"-"`
}

// Authenticates reports whether an edge with these flags authenticates its callers.
func Authenticates(policy PolicyFlags, identity IdentityFlags) bool {
	return policy.Access != "" || identity.Proxy.Header != ""
}

// OpenIdentity makes an edge authenticate its callers, until closed is called: by API
// keys, by the policy's settings, by the proxy in front, and by other ways. Without a
// policy and a proxy that names callers, callers without credentials are let in. Call it
// after OpenPolicy.
func (f *IdentityFlags) OpenIdentity(cfg *Config, ways ...identity.Way) (closed func(), err error) {
	proxy, err := f.Proxy.Proxy()
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		cfg.Client = proxy.Client
	}
	if proxy.Names() {
		ways = append(ways, proxy)
	}
	a := identity.New(ways...)
	if f.KeyHeader != "" {
		if err := a.TakeKeysFrom(f.KeyHeader); err != nil {
			a.Close()
			return nil, fmt.Errorf("--auth-key-header: %w", err)
		}
	}
	cfg.Authenticator = a
	live, ok := cfg.Access.(*access.Live)
	if !ok {
		return a.Close, a.Configure(identity.Settings{Anonymous: !proxy.Names()})
	}
	configure := func(p *access.Policy) error {
		s, err := p.Identity()
		if err != nil {
			return err
		}
		if f.DevIssuer != nil {
			s.ReplaceIssuers(*f.DevIssuer)
		}
		return a.Configure(s)
	}
	if err := configure(live.Now()); err != nil {
		a.Close()
		return nil, fmt.Errorf("--access: %w", err)
	}
	live.ChallengeBy(a.InsufficientScope)
	live.Prepare(configure)
	return a.Close, nil
}

// bounded is the authenticator, with a limit on failures; nil if everybody is anonymous.
func (e *Edge) bounded() gateway.Authenticator {
	if e.cfg.Authenticator == nil {
		return nil
	}
	return limit.NewFailures(e.cfg.Authenticator)
}

// identity is the authenticator, if it serves metadata for clients.
func (e *Edge) identity() *identity.Authenticator {
	a, _ := e.cfg.Authenticator.(*identity.Authenticator)
	return a
}

// authenticates reports whether callers must show credentials, or a policy may tell them
// apart.
func (e *Edge) authenticates() bool {
	if a := e.identity(); a != nil && a.Open() {
		return e.cfg.Access != nil
	}
	return e.cfg.Authenticator != nil
}

// oauth reports whether access tokens are accepted.
func (e *Edge) oauth() bool {
	a := e.identity()
	return a != nil && a.OAuth()
}

// takeKeys makes the authenticator accept the API keys of the bus. Edges make the bucket
// for them.
func (e *Edge) takeKeys() error {
	a := e.identity()
	if a == nil {
		return nil
	}
	keys, err := identity.NewKeys(e.conn, e.cfg.Logger)
	if err != nil {
		return err
	}
	e.cleanup(keys.Close)
	a.TakeKeys(keys)
	return nil
}

// refused answers a request whose custom header is invalid. The form of the answer is the
// same at all doors.
func (e *Edge) refused(ctx context.Context, w http.ResponseWriter, r *http.Request) bool {
	a := e.identity()
	if a == nil || r.Method == http.MethodOptions || !a.Custom(r.Header) {
		return false
	}
	switch path := r.URL.Path; {
	case path == "/healthz", path == "/readyz", strings.HasPrefix(path, identity.MetadataPath), trail.Operator(r, e.cfg.Audit.Token):
		return false // for anybody, and for the operator of the edge
	}
	_, err := e.gateway.Admit(ctx, "http", door.Credentials(r))
	var f *fault.Error
	if !errors.As(err, &f) || f.Reason != fault.Unauthenticated {
		return false
	}
	door.Explain(w.Header(), http.StatusUnauthorized, f)
	door.Answer(w, http.StatusUnauthorized, "application/json", []byte(customRefusal))
	return true
}

// customRefusal is the body of a refusal because of a custom header.
const customRefusal = `{"error":"Custom authentication failed"}`

var _ gateway.Ender = (*identity.Authenticator)(nil)
