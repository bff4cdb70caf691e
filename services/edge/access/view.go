package access

import (
	"slices"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// View is what lists show to a principal: everything that its roles allow, regardless of
// conditions, which depend on single calls. Nil shows everything.
func (p *Policy) View(who gateway.Principal) catalogue.View {
	roles := p.rolesOf(&who, nil)
	if unbounded(roles) {
		return nil
	}
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = strconv.Quote(r.name)
	}
	slices.Sort(names)
	return &view{roles, p.digest + " " + strings.Join(names, " ")}
}

// unbounded reports whether roles allow everything and deny nothing.
func unbounded(roles []*role) bool {
	all := slices.ContainsFunc(roles, func(r *role) bool {
		return slices.ContainsFunc(r.allow[Tools], func(l link) bool { return slices.ContainsFunc(l.patterns, func(p *pattern) bool { return p.all }) })
	})
	return all && !slices.ContainsFunc(roles, func(r *role) bool {
		return slices.ContainsFunc(r.deny[:], func(c chain) bool { return len(c) > 0 })
	})
}

// view is a catalogue.View.
type view struct {
	roles []*role
	key   string
}

// Key implements catalogue.View: the policy and the roles.
func (s *view) Key() string { return s.key }

// kindOf are the kinds of targets that lists show. A skill counts as the resource that it
// begins with, a template as its own text.
var kindOf = map[catalogue.Kind]Kind{
	catalogue.Tools: Tools, catalogue.LegacyTools: Tools, catalogue.Prompts: Prompts,
	catalogue.Resources: Resources, catalogue.Templates: Resources, catalogue.Skills: Resources,
}

// Sees implements catalogue.View.
func (s *view) Sees(kind catalogue.Kind, name, _ string) bool {
	k, ok := kindOf[kind]
	if !ok {
		return false
	}
	t := NewTarget(k, name)
	return decide(s.roles, &t).Allowed
}
