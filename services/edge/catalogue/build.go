package catalogue

import (
	"fmt"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// builder makes one snapshot.
type builder struct {
	*Snapshot
	owners      ownership
	known, used compiled
	// definitions of the build before, and of this one.
	knownDefinitions, usedDefinitions map[*busv1.Tool]definition.Definition
	// pinned has the accepted digests, by tool; nil if tools need not be accepted.
	pinned map[string]string
	// templates of the build before, and of this one, by text.
	knownTemplates, usedTemplates map[string]template
	items                         [kinds][]item
	taken                         map[Name]bool
	noted                         map[Conflict]bool
	// shown are the services that have something in a list.
	shown map[string]bool
	// lacking are the missing grants that are already noted.
	lacking map[string]bool
}

// build makes a snapshot of services sorted by name. A name that several services offer goes to
// its owner; every edge makes the same snapshot.
func build(services []registry.Service, owners ownership, pinned map[string]string, before memory) (*Snapshot, memory) {
	b := &builder{
		Snapshot: &Snapshot{
			services: services, tools: map[string]Target{}, prompts: map[string]Target{}, resources: map[string]Target{},
			files: map[string]Target{}, directories: map[string]directory{}, views: &views{}, grants: owners.grants, newest: map[string]definition.Definition{},
		},
		owners: owners, known: before.schemas, used: compiled{}, taken: map[Name]bool{}, noted: map[Conflict]bool{}, lacking: map[string]bool{}, shown: map[string]bool{},
		knownTemplates: before.templates, usedTemplates: map[string]template{},
		knownDefinitions: before.definitions, usedDefinitions: map[*busv1.Tool]definition.Definition{}, pinned: pinned,
	}
	for _, svc := range services {
		b.add(svc, releasesOf(svc))
	}
	b.settleURIs()
	b.items[LegacyTools] = withReplaced(b.items[Tools], b.items[LegacyTools])
	for k := range b.items {
		b.lists[k] = newList(Kind(k).member(), Kind(k).member(), b.items[k])
	}
	b.digest = digest(&b.lists)
	b.instruct(b.shown)
	return b.Snapshot, memory{b.used, b.usedTemplates, b.usedDefinitions}
}

// add adds the catalogue of a service.
func (b *builder) add(svc registry.Service, r *releases) {
	newest := svc.Catalogue
	b.addInstructions(svc.Name, newest.GetInstructions())
	at := func(n Name, definition string) Target {
		_, since := b.owners.owner(n)
		return Target{Service: svc.Name, Version: svc.Version, Definition: definition, Instances: r.alike(0, n), since: since}
	}
	for _, t := range newest.GetTools() {
		b.addTool(svc, r, t)
	}
	b.addEarlier(svc, r)
	for _, p := range newest.GetPrompts() {
		if n := (Name{PromptName, p.Name}); b.entry(Prompts, svc.Name, n, p.Json) {
			b.prompts[p.Name] = at(n, entryDigest(svc.Name, p))
		}
	}
	for _, e := range newest.GetResources() {
		if n := (Name{ResourceName, e.Uri}); b.entry(Resources, svc.Name, n, e.Json) {
			b.resources[e.Uri] = at(n, entryDigest(svc.Name, e))
		}
	}
	for i, e := range newest.GetResourceTemplates() {
		n := Name{TemplateName, e.UriTemplate}
		if i >= maxPatterns {
			b.leaveOut(svc.Name, n, fmt.Errorf("a service has at most %d templates", maxPatterns))
			break
		}
		t, err := b.template(e.UriTemplate, at(n, entryDigest(svc.Name, e)))
		if err != nil {
			b.leaveOut(svc.Name, n, err)
			continue
		}
		if b.entry(Templates, svc.Name, n, e.Json) {
			b.templates = append(b.templates, t)
		}
	}
	if n := (Name{Kind: ModelName}); newest.GetSamples() && b.mine(svc.Name, n) {
		b.sampler = at(n, "")
	}
	if n := (Name{Kind: TenantPromptsName}); newest.GetListsPrompts() && b.mine(svc.Name, n) {
		b.prompter = at(n, "")
	}
	b.addListing(svc.Name, newest, at)
	b.addSkills(svc.Name, newest.GetSkills(), at)
}

// target is the target for calls of a tool in the form of one release.
func (b *builder) target(svc registry.Service, r *releases, i int, t *busv1.Tool) (Target, plainTool, error) {
	sch, err := cached(t.InputSchema, schema.CompileInput, b.known, b.used)
	if err != nil {
		return Target{}, plainTool{}, fmt.Errorf("input schema: %w", err)
	}
	p, err := acceptable(t, b.known, b.used)
	if err != nil {
		return Target{}, p, err
	}
	_, loose := legacyTool(p.entry)
	target := Target{
		Service: svc.Name, Version: r.version(svc, i), Definition: b.definition(svc.Name, t).Digest, Instances: r.alike(i, Name{ToolName, t.Name}),
		Tool: &Tool{
			Title: title(t.Json), Schema: sch, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond,
			ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, RequiresUserApproval: t.RequiresUserApproval,
			Cache: time.Duration(t.CacheMs) * time.Millisecond, CacheShared: t.CacheShared, CallsTools: t.CallsTools, KeepsKeys: t.KeepsKeys,
			LooseOutput: loose, Output: p.output,
		},
	}
	b.bound(svc.Name, t.Name, target.Tool)
	return target, p, nil
}

func (b *builder) addTool(svc registry.Service, r *releases, t *busv1.Tool) {
	n := Name{ToolName, t.Name}
	variant, ok := b.accepted(svc, r, t)
	if !ok {
		if b.mine(svc.Name, n) {
			b.newest[t.Name] = b.definition(svc.Name, t)
		}
		return
	}
	target, p, err := b.target(svc, r, variant.release, variant.tool)
	if err != nil {
		b.leaveOut(svc.Name, n, err)
		return
	}
	if b.pinned != nil {
		target.Instances = variant.instances
	}
	if !b.entry(Tools, svc.Name, n, p.entry) {
		return
	}
	b.newest[t.Name] = b.definition(svc.Name, t)
	b.tools[t.Name] = target
	for _, at := range p.mended {
		b.mended = append(b.mended, fmt.Sprintf("%s of service %s: %s", n.words(), svc.Name, at))
	}
	if target.Tool.LooseOutput {
		legacy, _ := legacyTool(p.entry)
		b.items[LegacyTools] = append(b.items[LegacyTools], item{t.Name, legacy})
	}
}

// addEarlier makes tools of older releases that still run callable in their old form. Lists do
// not show these.
func (b *builder) addEarlier(svc registry.Service, r *releases) {
	for i := 1; i < len(r.all); i++ {
		for _, t := range r.all[i].Catalogue.GetTools() {
			n := Name{ToolName, t.Name}
			if b.pinned != nil {
				b.addEarlierPinned(svc, r, t.Name)
				continue
			}
			if r.first(n, i) != i {
				continue // a younger release has it in this form
			}
			target, _, err := b.target(svc, r, i, t)
			if err != nil {
				continue
			}
			switch now, ok := b.tools[t.Name]; {
			case ok && now.Service == svc.Name:
				now.Earlier = append(now.Earlier, target)
				b.tools[t.Name] = now
			case !ok && b.mine(svc.Name, n):
				b.tools[t.Name] = target
			}
		}
	}
}

// addEarlierPinned makes a tool that the newest release no longer has callable in its accepted
// form, by the instances that have exactly that form.
func (b *builder) addEarlierPinned(svc registry.Service, r *releases, tool string) {
	variant, ok := b.pinnedVariant(svc, r, tool)
	if _, there := b.tools[tool]; !ok || there || r.has(0, tool) || !b.mine(svc.Name, Name{ToolName, tool}) {
		return
	}
	if target, _, err := b.target(svc, r, variant.release, variant.tool); err == nil {
		target.Instances = variant.instances
		b.tools[tool] = target
	}
}

// entry adds an entry to a list, unless it is malformed or its name belongs to another service.
func (b *builder) entry(kind Kind, service string, n Name, raw []byte) bool {
	json, err := kind.entry(n.Name, raw)
	if err == nil && len(n.Name) > MaxURI {
		err = fmt.Errorf("it has more than %d bytes", MaxURI)
	}
	if owner, _ := b.owners.owner(n); err == nil && b.taken[n] && owner == service {
		err = fmt.Errorf("it appears twice")
	}
	if err != nil {
		b.leaveOut(service, n, err)
		return false
	}
	if !b.mine(service, n) {
		return false
	}
	b.items[kind] = append(b.items[kind], item{n.Name, json})
	b.shown[service] = true
	return true
}

// mine reports whether a name belongs to a service. If it does not, that is noted.
func (b *builder) mine(service string, n Name) bool {
	if ok, whose := b.owners.may(service, n); !ok {
		b.conflict(Conflict{Name: n, Service: service, Owner: whose, Ungranted: true})
		return false
	}
	owner, _ := b.owners.owner(n)
	if owner == service {
		b.taken[n] = true
		return true
	}
	b.conflict(Conflict{Name: n, Service: service, Owner: owner})
	return false
}

func (b *builder) conflict(c Conflict) {
	if !b.noted[c] {
		b.noted[c] = true
		b.conflicts = append(b.conflicts, c)
		b.problems = append(b.problems, c.String())
	}
}

func (b *builder) leaveOut(service string, n Name, err error) {
	b.problems = append(b.problems, fmt.Sprintf("%s of service %s is left out: %v", n.words(), service, err))
}
