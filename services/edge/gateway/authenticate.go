package gateway

import (
	"context"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Authenticator establishes who calls.
type Authenticator interface {
	// Authenticate returns the principal of the credentials, or a *fault.Error
	// with reason Unauthenticated.
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
}

func authenticate(a Authenticator, s *Sealer) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if c.Delegation != nil {
			if err := s.accept(ctx, c); err != nil {
				return nil, err
			}
			return next(ctx, c, onFrame)
		}
		p, err := a.Authenticate(ctx, c.Credentials)
		if err != nil {
			return nil, err
		}
		c.Principal, c.payer = p, Payer(p, c.Credentials)
		return next(ctx, c, onFrame)
	}
}

// Authenticate says who is behind credentials, for what is bound to a principal
// besides calls.
func (g *Gateway) Authenticate(ctx context.Context, c Credentials) (Principal, error) {
	p, err := g.authenticator.Authenticate(ctx, c)
	if err != nil {
		return p, fault.From(err)
	}
	return p, nil
}

// ID names a principal among those of all tenants.
func (p Principal) ID() string { return strconv.Itoa(len(p.Tenant)) + ":" + p.Tenant + p.Name }

// TenantOf is the tenant of a principal's ID; empty for what is none.
func TenantOf(id string) string {
	size, rest, _ := strings.Cut(id, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest) {
		return ""
	}
	return rest[:n]
}
