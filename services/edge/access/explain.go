package access

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Explanation says how a policy comes to its decision.
type Explanation struct {
	Allowed bool `json:"allowed"`
	// Decided is what decided, in words.
	Decided string   `json:"decided"`
	Roles   []string `json:"roles"`
	// Steps are the rules and conditions that were applied, in order.
	Steps []string `json:"steps"`
	// Approval says who has to approve the call; empty if nobody has to.
	Approval string `json:"approval,omitzero"`
}

// Explain says how the policy decides on a call. It knows only the principal of the call
// and the name of the target.
func (p *Policy) Explain(who gateway.Principal, t Target, arguments []byte, now time.Time) Explanation {
	roles := p.rolesOf(&who, nil)
	e := Explanation{Roles: make([]string, len(roles))}
	for i, r := range roles {
		e.Roles[i] = r.name
	}
	e.step("%s", p.introduce(&who, e.Roles))
	if len(t.readings) > 0 {
		e.step("services may read the URI as %s, so every form is compared with the rules", strings.Join(t.readings, " or as "))
	}
	e.Allowed, e.Decided = p.byRules(&e, roles, &who, &t)
	if e.Allowed {
		v := gateway.View{
			Call: &gateway.Call{Name: t.Name, Arguments: arguments}, Principal: who, Target: catalogue.Target{},
		}
		p.byConditions(&e, &t, &call{policy: p, view: &v, roles: roles, now: now})
	}
	if t.Kind == Tools {
		p.byApproval(&e, roles, t.Name)
	}
	return e
}

func (e *Explanation) step(format string, args ...any) {
	e.Steps = append(e.Steps, fmt.Sprintf(format, args...))
}

// introduce describes a principal.
func (p *Policy) introduce(who *gateway.Principal, roles []string) string {
	name := who.Name
	if who.Tenant != "" {
		name += " of tenant " + who.Tenant
	}
	has := "no roles"
	if len(roles) > 0 {
		has = "role " + strings.Join(roles, ", ")
	}
	if entry, ok := p.file.Principals[who.Name]; ok && entry.Tenant != who.Tenant {
		has += fmt.Sprintf("; the %s of the file is of tenant %q, which is somebody else", who.Name, entry.Tenant)
	}
	return name + " has " + has
}

func (p *Policy) byRules(e *Explanation, roles []*role, who *gateway.Principal, t *Target) (bool, string) {
	for _, r := range roles {
		if rule := r.deny.any(t); rule != nil {
			e.step("role %s denies %s, which wins over anything that allows", r.name, rule.text)
			return false, "deny " + rule.text + " of role " + r.name
		}
		e.step("role %s denies nothing that fits %s", r.name, t)
	}
	v := decide(roles, t)
	if v.Allowed {
		e.step("role %s allows %s", v.Role, v.Rule)
		return true, "allow " + v.Rule + " of role " + v.Role
	}
	if plain := allowed(roles, t.Kind, t.Name); plain.Allowed {
		e.step("role %s allows %s, but nothing allows the URI as services may read it", plain.Role, plain.Rule)
	} else {
		e.step("no role allows %s, and what is not allowed is denied", t)
	}
	if scope := p.missing(who, t); scope != "" {
		e.step("a token with scope %s would be allowed it", scope)
	}
	return false, "nothing allows it"
}

func (p *Policy) byConditions(e *Explanation, t *Target, of *call) {
	for _, c := range p.conditionsOn(t) {
		switch yes, err := c.holds(of, t); {
		case err != nil:
			e.step("the condition on line %d, %s, has no value, which denies: %v", c.line, c.when, err)
		case !yes:
			e.step("the condition on line %d, %s, is false", c.line, c.when)
		default:
			e.step("the condition on line %d, %s, is true", c.line, c.when)
			continue
		}
		e.Allowed, e.Decided = false, fmt.Sprintf("the condition on line %d", c.line)
		return
	}
}

func (p *Policy) byApproval(e *Explanation, roles []*role, tool string) {
	rule, waiver := p.required.find(Tools, tool), p.waiver(roles, tool)
	switch {
	case !e.Allowed:
		return
	case rule == nil && waiver != "":
		e.step("%s: nobody has to agree to a call, whatever the tool says", waiver)
		return
	case rule == nil:
		return
	case waiver != "":
		e.step("%s waives nothing here: require_approval wins", waiver)
	}
	var by []string
	for name, r := range p.roles {
		if r.approve.find(Tools, tool) != nil {
			by = append(by, name)
		}
	}
	slices.Sort(by)
	e.Approval = "the caller's own person"
	if len(by) > 0 {
		e.Approval = "somebody else of the tenant with role " + strings.Join(by, " or ")
	}
	e.step("require_approval %s: %s has to agree to each call", rule.text, e.Approval)
}
