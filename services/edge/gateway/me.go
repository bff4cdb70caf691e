package gateway

import "context"

// MethodLimits is how the audit trail names that somebody asked what is left of its
// limits, which counts for none of them; it is no method of MCP.
const MethodLimits = "busbar/limits"

// MethodMe is how the audit trail names that somebody asked who it is here; it is no
// method of MCP.
const MethodMe = "busbar/access.me"

// Me says who is behind the credentials of a request, and which roles it has here.
func (g *Gateway) Me(ctx context.Context, c *Call) (Principal, []string, error) {
	who, err := g.enter(ctx, c)
	if err != nil {
		return Principal{}, nil, err
	}
	return who, g.cfg.Access.Roles(who), nil
}
