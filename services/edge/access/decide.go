package access

import (
	"cmp"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Verdict is the decision of the rules on a target, before any condition.
type Verdict struct {
	Allowed bool
	// Role and Rule are the rule that decided. They are empty if no rule did, which
	// denies.
	Role, Rule string
}

// Decide applies the rules of a principal's roles to a target. A target that any rule
// denies is denied, and so is one that no rule allows.
func (p *Policy) Decide(who gateway.Principal, t Target) Verdict {
	var buf [8]*role
	return decide(p.rolesOf(&who, buf[:0]), &t)
}

func decide(roles []*role, t *Target) Verdict {
	for _, r := range roles {
		if rule := r.deny.any(t); rule != nil {
			return Verdict{Role: r.name, Rule: rule.text}
		}
	}
	v := allowed(roles, t.Kind, t.Name)
	for _, one := range t.readings {
		if !allowed(roles, t.Kind, one).Allowed {
			return Verdict{}
		}
	}
	return v
}

func allowed(roles []*role, k Kind, name string) Verdict {
	for _, r := range roles {
		if rule := r.allow.find(k, name); rule != nil {
			return Verdict{Allowed: true, Role: r.name, Rule: rule.text}
		}
	}
	return Verdict{}
}

// missing is the scope that would allow a principal a target that it is denied; empty if
// no scope would. Of several scopes it is the one with the narrowest rule, and the same
// each time.
func (p *Policy) missing(who *gateway.Principal, t *Target) string {
	var buf [8]*role
	roles := p.rolesOf(who, buf[:0])
	best, rule := "", ""
	for _, o := range p.file.OAuth {
		for scope, names := range o.Scopes {
			if slices.Contains(who.Scopes, scope) {
				continue
			}
			more := slices.Clone(roles)
			for _, name := range names {
				more = append(more, p.roles[name])
			}
			by := decide(more, t)
			narrower := cmp.Or(cmp.Compare(len(by.Rule), len(rule)), strings.Compare(best, scope))
			if by.Allowed && (best == "" || narrower > 0) {
				best, rule = scope, by.Rule
			}
		}
	}
	return best
}

// MayApprove reports whether a principal may approve a call of a tool by the requester, a
// principal's ID. If a role approves the tool, its holders may approve the calls of
// others in their tenant, and never their own. Otherwise only the requester itself may.
func (p *Policy) MayApprove(who gateway.Principal, requester, tool string) bool {
	if p.approve.find(Tools, tool) == nil {
		return who.ID() == requester
	}
	if who.ID() == requester || gateway.TenantOf(requester) != who.Tenant {
		return false
	}
	var buf [8]*role
	return slices.ContainsFunc(p.rolesOf(&who, buf[:0]), func(r *role) bool { return r.approve.find(Tools, tool) != nil })
}

// Approves reports whether a principal may approve calls of others at all.
func (p *Policy) Approves(who gateway.Principal) bool {
	var buf [8]*role
	return slices.ContainsFunc(p.rolesOf(&who, buf[:0]), func(r *role) bool { return !r.approve.empty(Tools) })
}

// Approval decides whether each call of a tool by a principal needs approval, and by
// whom. A tool that require_approval names needs it. For any other tool says decides,
// which is what the tool says of itself, unless that is waived for the principal.
func (p *Policy) Approval(who gateway.Principal, tool string, says bool) gateway.Demand {
	var buf [8]*role
	return p.demand(p.rolesOf(&who, buf[:0]), tool, says)
}

func (p *Policy) demand(roles []*role, tool string, says bool) gateway.Demand {
	if p.required.find(Tools, tool) == nil {
		if !says {
			return gateway.Demand{}
		}
		if p.waiver(roles, tool) != "" {
			return gateway.Demand{Waived: true}
		}
	}
	return gateway.Demand{Needed: true, Others: p.approve.find(Tools, tool) != nil}
}

// waiver is the rule by which calls of a tool need no approval, in words; empty without
// such a rule.
func (p *Policy) waiver(roles []*role, tool string) string {
	if rule := p.waived.find(Tools, tool); rule != nil {
		return "waive_approval " + rule.text
	}
	for _, r := range roles {
		if rule := r.waived.find(Tools, tool); rule != nil {
			return "waive_approval " + rule.text + " of role " + r.name
		}
	}
	return ""
}

// ReadsTrail reports whether a principal may read the audit trail of its tenant.
func (p *Policy) ReadsTrail(who gateway.Principal) bool {
	var buf [8]*role
	return slices.ContainsFunc(p.rolesOf(&who, buf[:0]), func(r *role) bool { return r.audit })
}
