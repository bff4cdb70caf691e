package catalogue

import (
	"fmt"
	"slices"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// Quarantined is a tool whose present definition nobody has accepted.
type Quarantined struct {
	Tool    string `json:"tool"`
	Service string `json:"service"`
	// Version is the release that still serves the accepted definition; empty if no release does,
	// and the tool is unknown then.
	Version string `json:"goes_on_as,omitzero"`
	// New: no definition of the tool was ever accepted.
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

// Waiting describes these tools in words.
func (s *Snapshot) Waiting() []string {
	all := make([]string, len(s.quarantined))
	for i, q := range s.quarantined {
		all[i] = q.String()
	}
	return all
}

// Newest are the present definitions of all tools, accepted or not, by the services that have the
// names. Don't change it.
func (s *Snapshot) Newest() map[string]definition.Definition { return s.newest }

// variant is a tool as one release of its service has it.
type variant struct {
	release int
	tool    *busv1.Tool
	// instances are the instances with this variant; nil for all.
	instances []string
}

// definition is the definition of a tool by its service. It has no digest if the tool is not
// JSON; no list shows such a tool.
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

// accepted is the tool in its accepted form; that is the newest form if nothing has to be
// accepted. It notes a newest form that is not accepted. Instances of other releases are not
// called, even if they differ only in descriptions.
func (b *builder) accepted(svc registry.Service, r *releases, newest *busv1.Tool) (v variant, ok bool) {
	if b.pinned == nil {
		return variant{tool: newest}, true
	}
	want, known := b.pinned[newest.Name]
	if r.digests == nil {
		ok = known && b.definition(svc.Name, newest).Digest == want
		v = variant{tool: newest}
	} else {
		v, ok = b.pinnedVariant(svc, r, newest.Name)
	}
	if may, _ := b.owners.may(svc.Name, Name{ToolName, newest.Name}); may && (!ok || v.release > 0) {
		q := Quarantined{Tool: newest.Name, Service: svc.Name, New: !known}
		if ok {
			q.Version = r.version(svc, v.release)
		}
		b.quarantined = append(b.quarantined, q)
	}
	return v, ok
}

// pinnedVariant is a tool in its accepted form, from whichever release has that.
func (b *builder) pinnedVariant(svc registry.Service, r *releases, tool string) (v variant, ok bool) {
	want, known := b.pinned[tool]
	if !known {
		return v, false
	}
	for i, release := range r.all {
		at := slices.IndexFunc(release.Catalogue.GetTools(), func(t *busv1.Tool) bool { return t.Name == tool })
		if at < 0 || b.definition(svc.Name, release.Catalogue.Tools[at]).Digest != want {
			continue
		}
		if !ok {
			v, ok = variant{release: i, tool: release.Catalogue.Tools[at]}, true
		}
		v.instances = append(v.instances, release.Instances...)
	}
	if len(v.instances) == r.instances {
		v.instances = nil
	}
	return v, ok
}

// has reports whether the catalogue of a release has a tool.
func (r *releases) has(i int, tool string) bool {
	return slices.ContainsFunc(r.all[i].Catalogue.GetTools(), func(t *busv1.Tool) bool { return t.Name == tool })
}
