package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Check returns the oddities of a policy that can be read: rules that never decide, roles
// that nobody has, tenants that do not exist. known is what the edge offers, by kind; a
// kind that is not in it is not checked, so pass nil if the edge cannot be asked.
func (p *Policy) Check(known map[Kind][]string) []Problem {
	c := checker{p: p, known: known}
	for _, name := range slices.Sorted(maps.Keys(p.file.Roles)) {
		c.role(name, p.file.Roles[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.file.Principals)) {
		who := p.file.Principals[name]
		if _, ok := p.file.Tenants[who.Tenant]; !ok && who.Tenant != "" && len(p.file.Tenants) > 0 {
			c.odd(place("principals", name), "%s is of tenant %q, which is not among tenants", name, who.Tenant)
		}
		if len(who.Roles) == 0 {
			c.odd(place("principals", name), "%s has no roles here", name)
		}
	}
	for i, one := range p.file.Conditions {
		c.there(place("conditions", strconv.Itoa(i)).AppendToken("on"), one.On)
	}
	required := c.list("/require_approval", p.file.RequireApproval)
	c.waived(required, "/waive_approval", p.file.WaiveApproval)
	for _, name := range slices.Sorted(maps.Keys(p.file.Roles)) {
		c.waived(required, place("roles", name).AppendToken("waive_approval"), p.file.Roles[name].WaiveApproval)
	}
	for _, name := range slices.Sorted(maps.Keys(p.file.Tools)) {
		c.there(place("tools", name), "tools/"+name)
	}
	for i, o := range p.file.OAuth {
		for scope, roles := range o.Scopes {
			if len(roles) == 0 {
				c.odd(place("oauth", strconv.Itoa(i)).AppendToken("scopes").AppendToken(scope), "scope %s brings no roles", scope)
			}
		}
	}
	c.services()
	c.toolsets()
	c.readers()
	c.approvers()
	slices.SortStableFunc(c.odds, func(a, b Problem) int { return a.Line - b.Line })
	return c.odds
}

// services checks the grants of services.
func (c *checker) services() {
	for _, name := range slices.Sorted(maps.Keys(c.p.file.Services)) {
		s, at := c.p.file.Services[name], place("services", name)
		for i, text := range s.Offers {
			here := at.AppendToken("offers").AppendToken(strconv.Itoa(i))
			if by := c.p.by[text]; len(by) > 1 && by[0] == name {
				c.odd(here, "%s is granted to %s alike: which of them came first has such a name", text, strings.Join(by, " and "))
			}
			if rule, err := parsePattern(text); err == nil && rule.exact && rule.kind == Tools {
				c.there(here, text)
			}
		}
		c.list(at.AppendToken("calls"), s.Calls)
		c.list(at.AppendToken("read_only"), s.ReadOnly)
		if len(s.Offers) == 0 && (len(s.Calls) > 0 || s.CacheForAll || s.Timeout > 0) {
			c.odd(at, "service %s is granted powers, but may offer nothing to use them for", name)
		}
	}
}

type checker struct {
	p     *Policy
	known map[Kind][]string
	odds  []Problem
}

func (c *checker) odd(at jsontext.Pointer, format string, args ...any) {
	c.odds = append(c.odds, Problem{c.p.lines.Of(at), fmt.Sprintf(format, args...)})
}

func (c *checker) role(name string, r Role) {
	at := place("roles", name)
	allow, deny := c.list(at.AppendToken("allow"), r.Allow), c.list(at.AppendToken("deny"), r.Deny)
	c.list(at.AppendToken("approve"), r.Approve)
	for i, rule := range allow {
		here := at.AppendToken("allow").AppendToken(strconv.Itoa(i))
		if by := covering(deny, &rule, -1); by != "" {
			c.odd(here, "role %s never allows %s: it denies %s", name, rule.text, by)
		} else if by := covering(allow, &rule, i); by != "" {
			c.odd(here, "%s of role %s never decides: %s allows it already", rule.text, name, by)
		}
	}
	for i, rule := range deny {
		if by := covering(deny, &rule, i); by != "" {
			c.odd(at.AppendToken("deny").AppendToken(strconv.Itoa(i)), "%s of role %s never decides: %s denies it already", rule.text, name, by)
		}
	}
	if !c.used(name) {
		c.odd(at, "nobody has role %s: it is of no principal and no scope, not anonymous, and no issuer brings roles by a claim", name)
	}
}

// waived looks for waivers without effect.
func (c *checker) waived(required []pattern, at jsontext.Pointer, texts []string) {
	for i, rule := range c.list(at, texts) {
		if by := covering(required, &rule, -1); by != "" {
			c.odd(at.AppendToken(strconv.Itoa(i)), "%s is never waived: require_approval has %s", rule.text, by)
		}
	}
}

// covering is another pattern that covers a rule, not counting the one at index but;
// empty without one.
func covering(all []pattern, rule *pattern, but int) string {
	i := slices.IndexFunc(all, func(p pattern) bool { return p.text != rule.text && p.covers(rule) })
	if but < 0 && i < 0 {
		i = slices.IndexFunc(all, func(p pattern) bool { return p.text == rule.text })
	}
	if i < 0 {
		return ""
	}
	return all[i].text
}

// used reports whether anybody can have a role.
func (c *checker) used(role string) bool {
	f := &c.p.file
	for _, who := range f.Principals {
		if slices.Contains(who.Roles, role) {
			return true
		}
	}
	for _, o := range f.OAuth {
		if o.Roles != "" {
			return true
		}
		for _, roles := range o.Scopes {
			if slices.Contains(roles, role) {
				return true
			}
		}
	}
	return slices.Contains(f.Anonymous, role)
}

// list is the patterns of a list, each checked against what the edge offers.
func (c *checker) list(at jsontext.Pointer, texts []string) (all []pattern) {
	for i, text := range texts {
		all = append(all, c.there(at.AppendToken(strconv.Itoa(i)), text))
	}
	return all
}

// there checks that the edge offers something that a pattern fits.
func (c *checker) there(at jsontext.Pointer, text string) pattern {
	rule, err := parsePattern(text)
	if err != nil || rule.all {
		return rule // Parse has checked it
	}
	names, ok := c.known[rule.kind]
	switch {
	case !ok || slices.ContainsFunc(names, rule.matchesName):
	case rule.exact && rule.kind != Resources:
		c.odd(at, "the edge has no %s", text)
	case rule.kind == Tools || rule.kind == Prompts:
		c.odd(at, "%s fits nothing that the edge has", text)
	}
	return rule
}

// CheckFile reads a policy file and returns its errors and oddities. offers returns what
// the edge offers and is called once the file is read; nil if the edge is not to be
// asked. The error says why the file could not be read.
func CheckFile(name string, offers func() map[Kind][]string) ([]Problem, error) {
	text, err := Read(name)
	if err != nil {
		return nil, err
	}
	policy, err := Parse(text)
	if wrong := (*ParseError)(nil); errors.As(err, &wrong) {
		return wrong.Problems, nil
	}
	if err != nil {
		return []Problem{{Text: err.Error()}}, nil
	}
	var known map[Kind][]string
	if offers != nil {
		known = offers()
	}
	return policy.Check(known), nil
}
