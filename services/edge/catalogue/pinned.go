package catalogue

import (
	"fmt"
	"slices"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// Quarantined is a tool whose service says of it what nobody has accepted.
type Quarantined struct {
	Tool    string `json:"tool"`
	Service string `json:"service"`
	// Version is the release that goes on with what was accepted; empty for none, where
	// the tool is unknown.
	Version string `json:"goes_on_as,omitzero"`
	// New: nothing was accepted of it ever.
	New bool `json:"new,omitzero"`
}

func (q Quarantined) String() string {
	why := "what its service says of it has changed"
	if q.New {
		why = "nobody has accepted it yet"
	}
	what := "is quarantined"
	if q.Version != "" {
		what = fmt.Sprintf("is as release %s has it", q.Version)
	}
	return fmt.Sprintf("tool %q of service %s %s: %s; \"busbar access accept\" shows and accepts that", fault.Clip(q.Tool), q.Service, what, why)
}

// Quarantined are the tools that wait to be accepted.
func (s *Snapshot) Quarantined() []Quarantined { return s.quarantined }

// Waiting are they in words.
func (s *Snapshot) Waiting() []string {
	all := make([]string, len(s.quarantined))
	for i, q := range s.quarantined {
		all[i] = q.String()
	}
	return all
}

// Newest is what the services that have the names say of their tools now, accepted or
// not. Don't change it.
func (s *Snapshot) Newest() map[string]definition.Definition { return s.newest }

// form is a tool as a release of its service has it.
type form struct {
	release int
	tool    *busv1.Tool
	// instances are those that have it so; nil for all.
	instances []string
}

// definition is what a service says of a tool; without a digest for what is no JSON,
// which no list shows.
func (b *builder) definition(service string, t *busv1.Tool) definition.Definition {
	d, ok := b.usedDefinitions[t]
	if !ok {
		d, ok = b.knownDefinitions[t]
	}
	if !ok {
		d, _ = definition.Current(service, t)
	}
	b.usedDefinitions[t] = d
	return d
}

// accepted is the tool in the form that was accepted, which is the newest where nothing
// has to be. It notes where the newest is not. Instances of other releases are not
// called, though they may say the same but for words.
func (b *builder) accepted(svc registry.Service, r *releases, newest *busv1.Tool) (f form, ok bool) {
	if b.pinned == nil {
		return form{tool: newest}, true
	}
	want, known := b.pinned[newest.Name]
	if r.forms == nil {
		ok = known && b.definition(svc.Name, newest).Digest == want
		f = form{tool: newest}
	} else {
		f, ok = b.pinnedForm(svc, r, newest.Name)
	}
	if may, _ := b.owners.may(svc.Name, Name{ToolName, newest.Name}); may && (!ok || f.release > 0) {
		q := Quarantined{Tool: newest.Name, Service: svc.Name, New: !known}
		if ok {
			q.Version = r.version(svc, f.release)
		}
		b.quarantined = append(b.quarantined, q)
	}
	return f, ok
}

// pinnedForm is a tool in the form that was accepted, of whichever release has it so.
func (b *builder) pinnedForm(svc registry.Service, r *releases, tool string) (f form, ok bool) {
	want, known := b.pinned[tool]
	if !known {
		return f, false
	}
	for i, release := range r.all {
		at := slices.IndexFunc(release.Catalogue.GetTools(), func(t *busv1.Tool) bool { return t.Name == tool })
		if at < 0 || b.definition(svc.Name, release.Catalogue.Tools[at]).Digest != want {
			continue
		}
		if !ok {
			f, ok = form{release: i, tool: release.Catalogue.Tools[at]}, true
		}
		f.instances = append(f.instances, release.Instances...)
	}
	if len(f.instances) == r.instances {
		f.instances = nil
	}
	return f, ok
}

// has reports whether the catalogue of a release has a tool.
func (r *releases) has(i int, tool string) bool {
	return slices.ContainsFunc(r.all[i].Catalogue.GetTools(), func(t *busv1.Tool) bool { return t.Name == tool })
}
