package access

import (
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// Limits are the limits of a principal's call. Of several roles the widest limit counts.
// If several patterns fit a tool, the one with the longest text before its first *
// counts. tool is empty for other methods than tool calls. A call that the principal may
// not make uses up nothing of a tool's limit, and does not reveal that the tool has one.
func (p *Policy) Limits(who gateway.Principal, tool string) limit.Applied {
	var buf [8]*role
	a := limit.Applied{Tenant: p.file.Tenants[who.Tenant].Limits}
	roles := p.rolesOf(&who, buf[:0])
	for _, r := range roles {
		a.Principal = a.Principal.Wider(r.limits)
	}
	if tool == "" {
		return a
	}
	t := NewTarget(Tools, tool)
	if rule := p.tools.find(Tools, tool); rule != nil && decide(roles, &t).Allowed {
		a.Tool, a.Rule = p.file.Tools[rule.text], rule.text
	}
	return a
}

// Limits implements limit.Rules.
func (l *Live) Limits(v gateway.View) limit.Applied {
	tool := ""
	if v.Target.Tool != nil {
		tool = v.Name
	}
	return l.Now().Limits(v.Principal, tool)
}
