package access

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

// Identity is what the file says about the identity of callers, with the secrets as they
// are now.
func (p *Policy) Identity() (identity.Settings, error) {
	s := p.settings("")
	for i := range s.Issuers {
		q := p.file.OAuth[i].Introspection
		if q == nil {
			continue
		}
		secret, err := q.secret()
		if err != nil {
			return s, fmt.Errorf("introspection at %s: %w", s.Issuers[i].URL, err)
		}
		s.Issuers[i].Introspection.Secret = secret
	}
	return s, nil
}

func (p *Policy) settings(secret string) identity.Settings {
	s := identity.Settings{
		Anonymous: len(p.file.Anonymous) > 0,
		Tenant:    func(principal string) string { return p.file.Principals[principal].Tenant },
	}
	for i := range p.file.OAuth {
		s.Issuers = append(s.Issuers, p.file.OAuth[i].identity(secret))
	}
	for _, c := range p.file.Certificates {
		s.Certificates = append(s.Certificates, c.identity())
	}
	return s
}

func (o *Issuer) identity(secret string) identity.Issuer {
	i := identity.Issuer{
		Issuer: oauth.Issuer{
			URL: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms, Lenient: o.Typ == "lenient",
			Principal: o.Principal, Tenant: o.Tenant, Roles: o.Roles, JWKS: o.JWKS, RequireDPoP: o.DPoP == "required",
		},
		Resource: o.Resource, ScopeRoles: o.Scopes, First: o.Ask,
	}
	if q := o.Introspection; q != nil {
		i.Introspection = &oauth.Introspection{URL: q.URL, ClientID: q.ClientID, Secret: secret}
	}
	return i
}

func (c Certificate) identity() identity.Certificate {
	return identity.Certificate{
		URI: c.URI, DNS: c.DNS, Subject: c.Subject, Principal: c.Principal, Tenant: c.Tenant, Roles: c.Roles, Program: c.Program,
	}
}

// secret reads the secret from its file or variable.
func (q *Introspection) secret() (string, error) {
	secret := os.Getenv(q.SecretEnv)
	if q.SecretFile != "" {
		raw, err := os.ReadFile(q.SecretFile)
		if err != nil {
			return "", err
		}
		secret = string(raw)
	}
	if secret = strings.TrimSpace(secret); secret == "" {
		return "", errors.New("the secret is empty")
	}
	return secret, nil
}

// Scopes are the scopes that bring roles, and those that clients are told to begin with.
func (p *Policy) Scopes() []string {
	s := p.settings("")
	return s.Scopes()
}
