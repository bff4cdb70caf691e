package gateway

import "context"

// MethodLimits is the audit trail's name for a question about remaining limits, which itself
// counts for none of them. It is not a method of MCP.
const MethodLimits = "busbar/limits"

// MethodMe is the audit trail's name for a caller's question about its own identity. It is not a
// method of MCP.
const MethodMe = "busbar/access.me"

// Me returns the principal behind the credentials of a request, and its roles here.
func (g *Gateway) Me(ctx context.Context, c *Call) (Principal, []string, error) {
	who, err := g.enter(ctx, c)
	if err != nil {
		return Principal{}, nil, err
	}
	return who, g.cfg.Access.Roles(who), nil
}
