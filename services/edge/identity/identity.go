// Package identity finds the caller of a request from its credentials: an API key, an OAuth 2.1 access
// token, a client certificate, a custom header, the header of a trusted proxy, or none. It is the one
// place for all credentials, at all doors (ADR 0034).
//
// A request has one credential. Two kinds at once are refused, and a bad one is refused, too: nobody
// becomes anonymous by sending something wrong. Start at Authenticator.Authenticate.
package identity

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Way is a further kind of credentials, besides the Authorization header and certificates.
type Way interface {
	// Present reports whether a request has credentials of this kind, good or bad.
	Present(c *gateway.Credentials) bool
	// Authenticate returns the principal of the credentials. The error is a *fault.Error, with
	// reason Unauthenticated for bad ones. Principal.Credential must not contain a secret.
	Authenticate(ctx context.Context, c *gateway.Credentials) (gateway.Principal, error)
}

// Settings is the part of an access file about callers. It may change while an edge runs.
type Settings struct {
	Issuers []Issuer
	// Certificates maps client certificates to principals. If empty, certificates are not
	// credentials.
	Certificates []Certificate
	// Anonymous lets in callers without credentials, as gateway.Anonymous.
	Anonymous bool
	// Tenant returns the tenant of a principal whose credentials name none; nil means none.
	Tenant func(principal string) string
}

// Check returns an error if the settings are not valid.
func (s Settings) Check() error {
	var issuers []oauth.Issuer
	for i := range s.Issuers {
		issuers = append(issuers, s.Issuers[i].Issuer)
	}
	if err := oauth.Check(issuers); err != nil {
		return err
	}
	for i := range s.Certificates {
		if err := s.Certificates[i].Check(); err != nil {
			return err
		}
	}
	_, err := metadata(s.Issuers)
	return err
}

// Authenticator is the gateway.Authenticator of an edge. Close it last.
type Authenticator struct {
	ways []Way
	// keyHeader is a custom header for API keys; may be empty.
	keyHeader string
	keys      atomic.Pointer[Keys]
	now       atomic.Pointer[state]

	mu      sync.Mutex
	onEnded map[*func(string)]struct{}
}

// state is Settings in use.
type state struct {
	Settings
	oauth    *oauth.Verifier
	roles    map[string]map[string][]string // by issuer and scope
	metadata []byte
	words    words
}

// New returns an authenticator with ways besides tokens and certificates. It lets nobody in before
// Configure.
func New(ways ...Way) *Authenticator {
	a := &Authenticator{ways: ways, onEnded: map[*func(string)]struct{}{}}
	verifier, err := oauth.New(nil, nil)
	if err != nil {
		panic(err) // without issuers there is no error
	}
	a.now.Store(&state{oauth: verifier, words: newWords(nil)})
	return a
}

// TakeKeys makes the authenticator accept API keys.
func (a *Authenticator) TakeKeys(k *Keys) {
	k.mu.Lock()
	k.onEnded = a.ended
	k.mu.Unlock()
	a.keys.Store(k)
}

// Configure applies new settings, also to open streams. Keys of unchanged issuers stay. On an error
// nothing changes.
func (a *Authenticator) Configure(s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	before := a.now.Load()
	next := &state{Settings: s, roles: map[string]map[string][]string{}}
	var issuers []oauth.Issuer
	for i := range s.Issuers {
		issuers = append(issuers, s.Issuers[i].Issuer)
		next.roles[s.Issuers[i].URL] = s.Issuers[i].ScopeRoles
	}
	var err error
	if next.metadata, err = metadata(s.Issuers); err != nil {
		return err
	}
	if next.oauth, err = oauth.New(issuers, before.oauth); err != nil {
		return err
	}
	next.words = newWords(s.Issuers)
	a.now.Store(next)
	before.oauth.CloseReplaced(next.oauth)
	a.ended("")
	return nil
}

// Open reports whether callers without credentials are let in.
func (a *Authenticator) Open() bool { return a.now.Load().Anonymous }

// Close stops reading keys of issuers. The creator of Keys closes them.
func (a *Authenticator) Close() { a.now.Load().oauth.Close() }

// Revoked reports whether a credential, by its Principal.Credential, is known to be revoked: an API key
// that was deleted. For other credentials it is not known.
func (a *Authenticator) Revoked(ctx context.Context, credential string) (bool, error) {
	if keys := a.keys.Load(); keys != nil {
		return keys.revoked(ctx, credential)
	}
	return false, nil
}

// OnEnded implements gateway.Ender.
func (a *Authenticator) OnEnded(f func(credential string)) (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onEnded[&f] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.onEnded, &f)
	}
}

func (a *Authenticator) ended(credential string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for f := range a.onEnded {
		(*f)(credential)
	}
}

// Authenticate implements gateway.Authenticator.
func (a *Authenticator) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Principal, error) {
	s := a.now.Load()
	p, err := a.authenticate(ctx, s, &c)
	if err != nil {
		return gateway.Principal{}, s.words.refuse(err)
	}
	if p.Tenant == "" && s.Tenant != nil && p.Name != gateway.Anonymous.Name {
		p.Tenant = s.Tenant(p.Name)
	}
	return p, nil
}

func (a *Authenticator) authenticate(ctx context.Context, s *state, c *gateway.Credentials) (gateway.Principal, error) {
	shown, err := read(c)
	if err != nil {
		return gateway.Principal{}, err
	}
	var way Way
	for _, w := range a.ways {
		if !w.Present(c) {
			continue
		}
		if way != nil || shown.scheme != "" {
			return gateway.Principal{}, twoKinds()
		}
		way = w
	}
	if own := c.Header[a.keyHeader]; a.keyHeader != "" && len(own) > 0 {
		if way != nil || shown.scheme != "" || len(own) > 1 {
			return gateway.Principal{}, twoKinds()
		}
		return a.byKey(own[0])
	}
	switch {
	case way != nil:
		return way.Authenticate(ctx, c)
	case store.IsAPIKey(shown.token) && shown.scheme == bearer:
		return a.byKey(shown.token)
	case shown.token != "":
		return s.byToken(ctx, c, shown)
	case shown.scheme != "": // a scheme that is not supported
		return gateway.Principal{}, unknown()
	case c.Certificate != nil && len(s.Certificates) > 0:
		return byCertificate(s.Certificates, c.Certificate)
	case s.Anonymous:
		return gateway.Anonymous, nil
	}
	return gateway.Principal{}, unknown()
}

// byKey returns the principal of an API key.
func (a *Authenticator) byKey(key string) (gateway.Principal, error) {
	if k := a.keys.Load(); k != nil {
		return k.authenticate(key)
	}
	return gateway.Principal{}, invalid("this edge does not accept API keys")
}

func twoKinds() error {
	return fault.New(fault.InvalidRequest, "the request has two credentials; send only one").Because(errTwo)
}

// errTwo is the cause of the refusal of more than one credential.
var errTwo = errors.New("more than one credential")

// byToken returns the principal of an access token.
func (s *state) byToken(ctx context.Context, c *gateway.Credentials, shown shown) (gateway.Principal, error) {
	t, err := s.oauth.Verify(ctx, oauth.Request{
		Token: shown.token, WithProof: shown.scheme == dpop, Proofs: c.Header["Dpop"],
		Method: c.Method, Host: c.Host, Path: c.Path, Secure: c.Secure, Certificate: c.Certificate,
		Recheck: c.Again(),
	})
	if err != nil {
		return gateway.Principal{}, err
	}
	p := gateway.Principal{
		Name: t.Principal, Tenant: t.Tenant, Scopes: t.Scopes, Roles: t.Roles, Program: t.Program,
		Expires: t.Expires, Credential: "oauth " + t.Issuer,
	}
	if p.Scopes == nil {
		p.Scopes = []string{} // not nil: a token without scopes is still a token
	}
	if of := s.roles[t.Issuer]; len(of) > 0 {
		p.Roles = append([]string(nil), t.Roles...)
		for _, scope := range t.Scopes {
			p.Roles = append(p.Roles, of[scope]...)
		}
	}
	return p, nil
}
