package access

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/yamljson"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// Policy is a policy file, compiled. It never changes.
type Policy struct {
	file       File
	digest     string
	roles      map[string]*role
	principals map[key][]*role
	anonymous  []*role
	// conditions are the conditions on a pattern, by its text; on finds the patterns.
	conditions map[string][]*condition
	on         *index
	// required are the tools whose calls need approval, waived those whose calls need
	// none, approve those that some role approves for others, and tools those with
	// limits.
	required, waived, approve, tools *index
	// services are the rights of services. offers are the patterns of offers, each with
	// the services that have it.
	services map[string]*service
	offers   *index
	by       map[string][]string
	// toolsets are the toolsets of the file, by name.
	toolsets map[string]*toolset.Set
	// lines are the lines of the file's members.
	lines yamljson.Lines
}

// key names a principal of the file.
type key struct{ tenant, name string }

// role is a role of the file, compiled.
type role struct {
	name                         string
	allow, deny, approve, waived *index
	limits                       limit.Limits
	audit                        bool
}

// Digest stands for the text of the file, hexadecimal.
func (p *Policy) Digest() string { return p.digest }

// File is the file that the policy was made of. Do not change it.
func (p *Policy) File() *File { return &p.file }

// rolesOf appends the roles of a principal to roles: the roles of its entry, if tenant
// and name match, and the roles that its credentials bring. Names of unknown roles are
// ignored.
func (p *Policy) rolesOf(who *gateway.Principal, roles []*role) []*role {
	if who.Name == gateway.Anonymous.Name && who.Tenant == gateway.Anonymous.Tenant {
		return append(roles, p.anonymous...)
	}
	roles = append(roles, p.principals[key{who.Tenant, who.Name}]...)
	for _, name := range who.Roles {
		if r := p.roles[name]; r != nil && !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	return roles
}

// Roles are the names of a principal's roles, sorted.
func (p *Policy) Roles(who gateway.Principal) []string {
	roles := p.rolesOf(&who, nil)
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// compiler makes a policy of a file, and collects the file's errors.
type compiler struct {
	file  File
	lines yamljson.Lines
	// ended is set if the file ends with a newline.
	ended    bool
	problems []Problem
}

func (c *compiler) at(p jsontext.Pointer, format string, args ...any) {
	c.problems = append(c.problems, Problem{c.lines.Of(p), fmt.Sprintf(format, args...)})
}

func (c *compiler) policy(digest string) *Policy {
	f := &c.file
	p := &Policy{file: *f, digest: digest, lines: c.lines, roles: map[string]*role{}, principals: map[key][]*role{}}
	for name, r := range f.Roles {
		p.roles[name] = c.role(place("roles", name), name, r)
	}
	for name, who := range f.Principals {
		at := place("principals", name)
		if name == gateway.Anonymous.Name {
			c.at(at, "%s is the caller without credentials: list its roles under anonymous", name)
		}
		p.principals[key{who.Tenant, name}] = c.rolesNamed(p, at.AppendToken("roles"), who.Roles)
	}
	p.anonymous = c.rolesNamed(p, "/anonymous", f.Anonymous)
	for name, t := range f.Tenants {
		c.limits(place("tenants", name).AppendToken("limits"), t.Limits)
	}
	if f.RequireApproval == nil {
		c.given("/require_approval", "require_approval is a list, [] for nothing, or is left out")
	}
	if f.WaiveApproval == nil {
		c.given("/waive_approval", "waive_approval is a list, [] for nothing, or is left out")
	}
	p.required = newIndex(c.toolPatterns("/require_approval", f.RequireApproval))
	p.waived = newIndex(c.waived("/waive_approval", f.WaiveApproval))
	p.tools = newIndex(c.toolLimits(f.Tools))
	var approve []pattern
	for name, r := range f.Roles {
		all := c.toolPatterns(place("roles", name).AppendToken("approve"), r.Approve)
		p.roles[name].approve = newIndex(all)
		p.roles[name].waived = newIndex(c.waived(place("roles", name).AppendToken("waive_approval"), r.WaiveApproval))
		approve = append(approve, all...)
	}
	p.approve = newIndex(approve)
	for i, o := range f.OAuth {
		c.issuer(p, place("oauth", strconv.Itoa(i)), o)
	}
	for i, one := range f.Certificates {
		here := place("certificates", strconv.Itoa(i))
		if err := one.identity().Check(); err != nil {
			c.at(here, "%v", err)
		}
		c.rolesNamed(p, here.AppendToken("roles"), one.Roles)
	}
	if len(c.problems) == 0 {
		if err := p.settings("secret").Check(); err != nil {
			c.at("/oauth", "%v", err)
		}
	}
	p.conditions, p.on = c.conditions(f.Conditions)
	c.services(p)
	c.toolsets(p)
	return p
}

// place is the place of a member of the file.
func place(section, name string) jsontext.Pointer {
	return jsontext.Pointer("").AppendToken(section).AppendToken(name)
}

func (c *compiler) role(at jsontext.Pointer, name string, r Role) *role {
	if name == "" {
		c.at(at, "a role needs a name")
	}
	if r.Audit != "" && r.Audit != "read" {
		c.at(at.AppendToken("audit"), "audit is \"read\", or is left out")
	}
	c.limits(at.AppendToken("limits"), r.Limits)
	return &role{
		name: name, limits: r.Limits, audit: r.Audit == "read",
		allow: newIndex(c.patterns(at.AppendToken("allow"), r.Allow)),
		deny:  newIndex(c.patterns(at.AppendToken("deny"), r.Deny)),
	}
}

func (c *compiler) patterns(at jsontext.Pointer, texts []string) (all []pattern) {
	seen := map[string]bool{}
	for i, text := range texts {
		here := at.AppendToken(strconv.Itoa(i))
		one, err := parsePattern(text)
		switch {
		case err != nil:
			c.at(here, "%v", err)
			continue
		case seen[text]:
			c.at(here, "%q is there twice", text)
		}
		seen[text] = true
		all = append(all, one)
	}
	return all
}

// toolPatterns are patterns of tools only.
func (c *compiler) toolPatterns(at jsontext.Pointer, texts []string) []pattern {
	all := c.patterns(at, texts)
	for _, p := range all {
		if !p.all && p.kind != Tools {
			c.at(at.AppendToken(strconv.Itoa(slices.Index(texts, p.text))), "%q is of no tool: only calls of tools are approved or limited here", p.text)
		}
	}
	return all
}

// waived are the patterns of tools whose calls need no approval. They stand below
// require_approval, so that a truncated file never waives an approval that its missing
// part requires.
func (c *compiler) waived(at jsontext.Pointer, texts []string) []pattern {
	if len(texts) > 0 {
		if required, there := c.lines["/require_approval"]; !there || required > c.lines.Of(at) {
			c.at(at, "require_approval has to stand above every waive_approval, as [] if it names nothing: a file that is cut off must not waive what its rest demands")
		}
		if !c.ended {
			c.at(at, "a file with waive_approval ends with the end of a line, so that a name which is cut off is not taken for a whole one")
		}
	}
	return c.toolPatterns(at, texts)
}

func (c *compiler) toolLimits(tools map[string]limit.Limits) (all []pattern) {
	for _, text := range slices.Sorted(maps.Keys(tools)) {
		at := place("tools", text)
		c.limits(at, tools[text])
		p, err := parsePattern("tools/" + text)
		if err != nil {
			c.at(at, "%v", err)
			continue
		}
		p.text = text
		all = append(all, p)
	}
	return all
}

func (c *compiler) limits(at jsontext.Pointer, l limit.Limits) {
	if l.Concurrent < 0 {
		c.at(at.AppendToken("concurrent"), "concurrent is a number of calls, 1 or more")
	}
}

// rolesNamed are the roles with the names of a list.
func (c *compiler) rolesNamed(p *Policy, at jsontext.Pointer, names []string) (all []*role) {
	for i, name := range names {
		here := at.AppendToken(strconv.Itoa(i))
		r := p.roles[name]
		switch {
		case r == nil:
			c.at(here, "there is no role %q", name)
		case slices.Contains(all, r):
			c.at(here, "role %q is there twice", name)
		default:
			all = append(all, r)
		}
	}
	return all
}

func (c *compiler) issuer(p *Policy, at jsontext.Pointer, o Issuer) {
	if err := o.identity("secret").Check(); err != nil {
		c.at(at, "%v", err)
	}
	if o.Typ != "" && o.Typ != "strict" && o.Typ != "lenient" {
		c.at(at.AppendToken("typ"), "typ is strict or lenient")
	}
	if o.DPoP != "" && o.DPoP != "required" {
		c.at(at.AppendToken("dpop"), "dpop is \"required\", or is left out")
	}
	if q := o.Introspection; q != nil && (q.SecretFile == "") == (q.SecretEnv == "") {
		c.at(at.AppendToken("introspection"), "introspection needs secret_file or secret_env, which say where the secret is")
	}
	for i, scope := range o.Ask {
		if !validScope(scope) {
			c.at(at.AppendToken("ask").AppendToken(strconv.Itoa(i)), "%q is not a valid scope", scope)
		}
	}
	for scope, roles := range o.Scopes {
		here := at.AppendToken("scopes").AppendToken(scope)
		if !validScope(scope) {
			c.at(here, "%q is not a valid scope: it has a character that scopes cannot have (RFC 6749, 3.3)", scope)
		}
		c.rolesNamed(p, here, roles)
	}
}

// validScope reports whether a text is a scope-token of RFC 6749, 3.3.
func validScope(s string) bool {
	for _, b := range []byte(s) {
		if b <= ' ' || b > '~' || b == '"' || b == '\\' {
			return false
		}
	}
	return s != ""
}
