package api

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Me is who makes a request.
type Me struct {
	// Principal is the name, "anonymous" for who shows nothing.
	Principal string `json:"principal"`
	Tenant    string `json:"tenant,omitzero"`
	// Roles are those that the policy gives, and those of the credentials that it
	// knows.
	Roles  []string `json:"roles"`
	Scopes []string `json:"scopes,omitzero"`
	// Program says that it is a program on its own behalf, not for a person.
	Program bool `json:"program,omitzero"`
	// Expires is when the credentials are no longer good.
	Expires time.Time `json:"expires,omitzero"`
	// Credential names what was shown, and never a secret.
	Credential string `json:"credential,omitzero"`
}

// Me says who makes a request.
func (s *Server) Me(ctx context.Context, c Caller) (*Me, error) {
	who, roles, err := s.gateway.Me(ctx, c.Call(gateway.MethodMe, "", nil, nil))
	if err != nil {
		return nil, err
	}
	return &Me{
		Principal: who.Name, Tenant: who.Tenant, Roles: append([]string{}, roles...), Scopes: who.Scopes,
		Program: who.Program, Expires: who.Expires, Credential: who.Credential,
	}, nil
}
