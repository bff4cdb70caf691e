package access

import (
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// Limits are those of a call of a principal: of several roles the widest, and of the
// patterns that fit a tool the one that says most of its name before its first *. tool
// is empty for what is no call of a tool. Who may not call a tool uses up nothing of it,
// and does not learn that it has a limit.
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
