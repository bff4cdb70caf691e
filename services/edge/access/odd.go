package access

import (
	"maps"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// readers are tools whose callers can read or change things that rules on other kinds
// protect.
var readers = map[Kind][]string{
	Resources: {"read_resource", "search_resources", "list_resources", "update_resource", "delete_resource"},
	Prompts:   {"get_prompt", "list_prompts", "update_prompt", "delete_prompt"},
}

// readers looks for roles with a tool that gets round their rules on resources or
// prompts.
func (c *checker) readers() {
	for _, name := range slices.Sorted(maps.Keys(c.p.file.Roles)) {
		r, roles := c.p.file.Roles[name], []*role{c.p.roles[name]}
		for _, kind := range []Kind{Resources, Prompts} {
			on := func(rule string) bool {
				return strings.HasPrefix(rule, kind.String()+"/") && rule != kind.String()+"/*"
			}
			if !slices.ContainsFunc(slices.Concat(r.Allow, r.Deny), on) {
				continue
			}
			for _, tool := range readers[kind] {
				if t := NewTarget(Tools, tool); decide(roles, &t).Allowed && len(c.p.conditionsOn(&t)) == 0 {
					c.odd(place("roles", name), "role %s has rules on %s, but may call tools/%s, which no rule on %s binds: deny the tool, or put a condition on its arguments", name, kind, tool, kind)
					break
				}
			}
		}
	}
}

// approvers looks for tenants in which nobody can approve some principal's calls, and for
// readers of a trail that belongs to no tenant. It does not know principals that have a
// role by their credentials alone.
func (c *checker) approvers() {
	f, by := &c.p.file, map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Principals)) {
		who := gateway.Principal{Name: name, Tenant: f.Principals[name].Tenant}
		if c.p.Approves(who) {
			by[who.Tenant] = append(by[who.Tenant], name)
		}
		if who.Tenant == "" && c.p.ReadsTrail(who) {
			c.odd(place("principals", name), "%s reads the audit trail of those without a tenant, and of nobody else: give it a tenant", name)
		}
	}
	if slices.ContainsFunc(f.OAuth, func(o Issuer) bool { return o.Roles != "" || len(o.Scopes) > 0 }) || len(f.Certificates) > 0 {
		return
	}
	for _, tenant := range slices.Sorted(maps.Keys(by)) {
		if all := by[tenant]; len(all) == 1 && c.calls(gateway.Principal{Name: all[0], Tenant: tenant}) {
			c.odd(place("principals", all[0]), "%s alone approves calls in tenant %q, and nobody approves its own: those that need it wait until they expire", all[0], tenant)
		}
	}
}

// calls reports whether a principal may call any tool.
func (c *checker) calls(who gateway.Principal) bool {
	return slices.ContainsFunc(c.p.rolesOf(&who, nil), func(r *role) bool { return !r.allow.empty(Tools) })
}
