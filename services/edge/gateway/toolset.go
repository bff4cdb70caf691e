package gateway

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// toolset is the one through which credentials see what services offer; nil for none.
// The error does not tell a set that is not there from one that is not theirs.
func (cfg *Config) toolset(p Principal, c *Credentials) (*toolset.Set, error) {
	if c.Toolset == "" {
		return nil, nil
	}
	if set := cfg.Access.Toolset(p, c.Toolset); set != nil {
		return set, nil
	}
	theirs := "none"
	if all := cfg.Access.Toolsets(p); len(all) > 0 {
		theirs = fault.Clip(strings.Join(all, ", "))
	}
	return nil, fault.New(fault.UnknownToolset, "Unknown toolset: %s; you may use %s", fault.Clip(c.Toolset), theirs)
}

// view is what somebody may know of with credentials; nil for everything.
func (cfg *Config) view(p Principal, c *Credentials) catalogue.View {
	view := cfg.Access.View(p)
	if c.Toolset == "" {
		return view
	}
	set, err := cfg.toolset(p, c)
	if err != nil {
		return catalogue.Nothing
	}
	return catalogue.Through(set, view)
}

// through finds what the call reaches through a toolset. From here on the call has the
// name that the service gives what it reaches, and all arguments: policy, approval and
// trail see no others.
func (r *run) through(cfg *Config, now *catalogue.Snapshot) (catalogue.Target, error) {
	set, err := cfg.toolset(r.Principal, &r.Credentials)
	if err != nil {
		return catalogue.Target{}, err
	}
	switch r.Method {
	case mcp.MethodToolsCall:
		m, ok := set.Tool(r.Name, now.HasTool)
		if t, is := own(r.Name); is && !ok {
			return t, nil
		}
		if !ok {
			return catalogue.Target{}, UnknownTool(r.Name)
		}
		err = r.become(&m)
	case mcp.MethodPromptsGet:
		m, ok := set.Prompts.Find(r.Name)
		if !ok {
			return catalogue.Target{}, UnknownPrompt(r.Name)
		}
		err = r.become(&m)
	case mcp.MethodResourcesRead:
		if !set.HasResource(r.Name) {
			return catalogue.Target{}, UnknownResource(r.Name)
		}
	case mcp.MethodComplete:
		err = r.complete(set)
	}
	if err != nil {
		return catalogue.Target{}, err
	}
	t, err := target(now, r.Principal.Tenant, r.Call)
	if err != nil && r.shown != "" {
		return t, unknown(r)
	}
	if err == nil && t.Tool != nil {
		err = r.fixable(&t, set, now)
	}
	return t, err
}

// stillThrough refuses a held call that was made through a toolset which its caller may
// no longer use, or which no longer has the tool.
func (r *run) stillThrough(cfg *Config) error {
	set, err := cfg.toolset(r.Principal, &r.Credentials)
	if err == nil && set != nil && !set.Tools.Has(r.Name) {
		err = UnknownTool(r.Name)
	}
	return err
}

// become makes the call one of what the member is of.
func (r *run) become(m *toolset.Member) (err error) {
	r.said.Arguments, err = m.Arguments(r.Arguments)
	r.shown, r.said.Name = r.Name, m.Tool
	if err != nil && r.Method == mcp.MethodToolsCall {
		err = fault.From(err).Because(ErrInvalidArguments)
	}
	return err
}

// fixable refuses a call whose tool does not have the arguments that the set fixes: one
// that the client gives in their place would count.
func (r *run) fixable(t *catalogue.Target, set *toolset.Set, now *catalogue.Snapshot) error {
	m, _ := set.Tool(r.shown, now.HasTool)
	for name := range m.Fixed {
		if !t.Tool.Schema.Has(name) {
			return fault.New(fault.Unavailable, "Toolset %s fixes an argument that the tool behind %s does not have; who runs this edge has to mend its policy file", set.Name(), fault.Clip(r.shown))
		}
	}
	return nil
}

// complete has a completion be about the prompt's own name, and the arguments that are
// known be those of a call: the fixed ones too, as the set has them.
func (r *run) complete(set *toolset.Set) error {
	var p mcp.CompleteParams
	if json.Unmarshal(r.Arguments, &p) != nil {
		return nil // which target refuses
	}
	if p.Ref.Type == "ref/resource" {
		if !set.HasResource(p.Ref.URI) {
			return UnknownResource(p.Ref.URI)
		}
		return nil
	}
	m, ok := set.Prompts.Find(p.Ref.Name)
	switch {
	case !ok:
		return UnknownPrompt(p.Ref.Name)
	case m.Fixes(p.Argument.Name):
		return toolset.Fixed(p.Argument.Name, p.Argument.Name)
	}
	r.shown = p.Ref.Name
	if m.Tool == p.Ref.Name && len(m.Fixed) == 0 {
		return nil
	}
	p.Ref.Name = m.Tool
	known, err := json.Marshal(p.Context.Arguments, json.FormatNilMapAsNull(false))
	if err != nil {
		return fault.From(err)
	}
	if known, err = m.Arguments(known); err != nil {
		return err
	}
	params, err := json.Marshal(struct {
		Ref      any `json:"ref"`
		Argument any `json:"argument"`
		Context  any `json:"context"`
	}{p.Ref, p.Argument, map[string]jsontext.Value{"arguments": known}}, json.Deterministic(true))
	r.said.Arguments = params
	return err
}
