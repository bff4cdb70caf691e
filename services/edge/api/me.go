package api

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Me describes the caller of a request.
type Me struct {
	// Principal is the name; "anonymous" for callers without credentials.
	Principal string `json:"principal"`
	Tenant    string `json:"tenant,omitzero"`
	// Roles are the roles that the policy gives, and the roles of the credentials that
	// the policy knows.
	Roles  []string `json:"roles"`
	Scopes []string `json:"scopes,omitzero"`
	// Program is set for a program that acts for itself, not for a person.
	Program bool `json:"program,omitzero"`
	// Expires is when the credentials expire.
	Expires time.Time `json:"expires,omitzero"`
	// Credential names the credentials, and never contains a secret.
	Credential string `json:"credential,omitzero"`
}

// Me describes the caller of a request.
func (s *Server) Me(ctx context.Context, c Caller, _ None) (*Me, error) {
	who, roles, err := s.gateway.Me(ctx, c.Call(gateway.MethodMe, "", nil))
	if err != nil {
		return nil, err
	}
	return &Me{
		Principal: who.Name, Tenant: who.Tenant, Roles: append([]string{}, roles...), Scopes: who.Scopes,
		Program: who.Program, Expires: who.Expires, Credential: who.Credential,
	}, nil
}
