package catalogue

import "github.com/busbar-mcp/busbar/services/edge/toolset"

// through is what somebody sees through a toolset.
type through struct {
	set  *toolset.Set
	view View // nil for everything
	key  string
}

// Through is a sight of what a toolset has, as far as somebody may know of it; nil is of
// everything.
func Through(set *toolset.Set, view View) View {
	t := &through{set: set, view: view, key: "toolset " + set.Key()}
	if view != nil {
		t.key += " " + view.Key()
	}
	return t
}

// Key implements View.
func (t *through) Key() string { return t.key }

// Sees implements View, for the names that services give.
func (t *through) Sees(kind Kind, name, service string) bool {
	has := t.set.HasResource
	switch kind {
	case Tools, LegacyTools:
		has = t.set.Tools.Has
	case Prompts:
		has = t.set.Prompts.Has
	}
	return has(name) && (t.view == nil || t.view.Sees(kind, name, service))
}

// Nothing is the sight of who may know of nothing.
var Nothing View = nothing{}

type nothing struct{}

func (nothing) Key() string                    { return "nothing" }
func (nothing) Sees(Kind, string, string) bool { return false }

// dressed are the entries of a tool or prompt as the snapshot's toolset shows it: one
// for each name that it has there. An entry that cannot be shown as the set says is left
// out, as its calls are refused.
func (s *Snapshot) dressed(kind Kind, it item) []item {
	var names *toolset.Names
	dress := (*toolset.Member).ToolEntry
	switch {
	case s.set == nil:
	case kind == Tools, kind == LegacyTools:
		names = &s.set.Tools
	case kind == Prompts:
		names, dress = &s.set.Prompts, (*toolset.Member).PromptEntry
	}
	if names == nil {
		return []item{it}
	}
	var all []item
	for _, shown := range names.Aliases(it.name) {
		m, _ := names.Find(shown)
		if json, err := dress(&m, shown, it.json); err == nil {
			all = append(all, item{shown, json})
		}
	}
	return all
}
