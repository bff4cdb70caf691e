// Package catalogue is an edge's picture of what all services together offer:
// who serves a name, the schema its arguments must meet, and the lists that
// clients ask for as ready-made bytes.
package catalogue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// Target is what a call reaches.
type Target struct {
	Service string
	// Definition stands for all that the service said of it, with whose it is:
	// hexadecimal, the same at every edge, another after any change. Empty for what
	// no catalogue describes one by one, such as a prefix of resources.
	Definition string
	// Tool is nil unless the call is for a tool.
	Tool *Tool
}

// Tool is what the edge needs to know of a tool.
type Tool struct {
	// Title is what people call the tool; empty for none.
	Title  string
	Schema *schema.Schema
	// Timeout is the longest a call may take; 0 for the edge's default.
	Timeout              time.Duration
	ReadOnly             bool
	Idempotent           bool
	RequiresUserApproval bool
	// Cache is how long a result may be kept; CacheShared, for everybody.
	Cache       time.Duration
	CacheShared bool
	// CallsTools: its service calls other tools on the caller's behalf.
	CallsTools bool
	// KeepsKeys: its service runs a call with an idempotency key once.
	KeepsKeys bool
	// LooseOutput says that the structured result need not be an object, as it
	// had to before 2026-07-28.
	LooseOutput bool
}

// Snapshot is the catalogue at one moment. It never changes.
type Snapshot struct {
	tools, prompts, resources map[string]Target
	templates                 []template
	prefixes                  []prefix
	listers                   []string
	files                     map[string]Target
	directories               map[string]*list
	lists                     [kinds]list
	digest                    string
	problems                  []string
	services                  []bus.Service
	sampler                   string
}

// Problems are the entries left out and why: a name that another service
// offers already, a schema that does not compile.
func (s *Snapshot) Problems() []string { return s.problems }

// Tool returns the tool of a name.
func (s *Snapshot) Tool(name string) (Target, bool) { t, ok := s.tools[name]; return t, ok }

// Prompt returns the prompt of a name.
func (s *Snapshot) Prompt(name string) (Target, bool) { t, ok := s.prompts[name]; return t, ok }

// Sampler returns the service with a model, for calls that bring none.
func (s *Snapshot) Sampler() (Target, bool) { return Target{Service: s.sampler}, s.sampler != "" }

// Resource returns who reads a URI: the service whose skill has that file,
// then a resource of that URI, then any template it matches, then the longest
// prefix it has. Nobody reads a URI of more than MaxURI bytes.
func (s *Snapshot) Resource(uri string) (Target, bool) {
	if len(uri) > MaxURI {
		return Target{}, false
	}
	if t, ok := s.files[uri]; ok {
		return t, true
	}
	if t, ok := s.resources[uri]; ok {
		return t, true
	}
	for i := range s.templates {
		if s.templates[i].matches(uri) {
			return s.templates[i].target, true
		}
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(uri, p.begins) {
			return p.target, true
		}
	}
	return Target{}, false
}

// Template returns who completes the variables of a URI template.
func (s *Snapshot) Template(uri string) (Target, bool) {
	for _, t := range s.templates {
		if t.uri == uri {
			return t.target, true
		}
	}
	return Target{}, false
}

// compiled remembers schemas by their text, since most of them stay when the
// catalogue changes.
type compiled map[string]*schema.Schema

// build makes a snapshot of services sorted by name. Every edge makes the
// same one: of two services that offer a name, the first in order has it.
func build(services []bus.Service, known compiled) (*Snapshot, compiled) {
	s := &Snapshot{
		services: services, tools: map[string]Target{}, prompts: map[string]Target{}, resources: map[string]Target{},
		files: map[string]Target{}, directories: map[string]*list{},
	}
	used := compiled{}
	var items [kinds][]item
	// claim adds an entry, unless it is malformed or its name is taken.
	claim := func(what string, taken map[string]Target, kind Kind, name string, raw []byte, t Target) bool {
		json, err := kind.entry(name, raw)
		if err == nil && len(name) > MaxURI {
			err = fmt.Errorf("it has more than %d bytes", MaxURI)
		}
		if err != nil {
			s.problems = append(s.problems, fmt.Sprintf("%s %q of service %s is left out: %v", what, fault.Clip(name), t.Service, err))
			return false
		}
		if other, ok := taken[name]; ok {
			s.problems = append(s.problems, fmt.Sprintf("%s %q of service %s is left out: service %s offers one of that name", what, name, t.Service, other.Service))
			return false
		}
		taken[name] = t
		items[kind] = append(items[kind], item{name, json})
		return true
	}
	templates, skills := map[string]Target{}, map[string]string{}
	for _, svc := range services {
		for _, t := range svc.Catalogue.GetTools() {
			text := string(t.InputSchema)
			sch := known[text]
			if sch == nil {
				var err error
				if sch, err = schema.CompileInput(t.InputSchema); err != nil {
					s.problems = append(s.problems, fmt.Sprintf("tool %q of service %s is left out: input schema: %v", t.Name, svc.Name, err))
					continue
				}
			}
			used[text] = sch
			legacy, loose := legacyTool(t.Json)
			claimed := claim("tool", s.tools, Tools, t.Name, t.Json, Target{Service: svc.Name, Definition: definition(svc.Name, t), Tool: &Tool{
				Title: title(t.Json), Schema: sch, Timeout: time.Duration(t.TimeoutMs) * time.Millisecond,
				ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, RequiresUserApproval: t.RequiresUserApproval,
				Cache: time.Duration(t.CacheMs) * time.Millisecond, CacheShared: t.CacheShared, CallsTools: t.CallsTools, KeepsKeys: t.KeepsKeys,
				LooseOutput: loose,
			}})
			if claimed && loose {
				items[LegacyTools] = append(items[LegacyTools], item{t.Name, legacy})
			}
		}
		for _, p := range svc.Catalogue.GetPrompts() {
			claim("prompt", s.prompts, Prompts, p.Name, p.Json, Target{Service: svc.Name, Definition: definition(svc.Name, p)})
		}
		for _, r := range svc.Catalogue.GetResources() {
			claim("resource", s.resources, Resources, r.Uri, r.Json, Target{Service: svc.Name, Definition: definition(svc.Name, r)})
		}
		for _, r := range svc.Catalogue.GetResourceTemplates() {
			t, err := newTemplate(r.UriTemplate, Target{Service: svc.Name, Definition: definition(svc.Name, r)})
			if err != nil {
				s.problems = append(s.problems, fmt.Sprintf("resource template %q of service %s is left out: %v", r.UriTemplate, svc.Name, err))
				continue
			}
			if claim("resource template", templates, Templates, r.UriTemplate, r.Json, t.target) {
				s.templates = append(s.templates, t)
			}
		}
		if svc.Catalogue.GetSamples() && s.sampler == "" {
			s.sampler = svc.Name
		}
		s.addListing(svc)
		items[Skills] = append(items[Skills], s.addSkills(svc.Name, svc.Catalogue.GetSkills(), skills)...)
	}
	slices.SortFunc(s.templates, func(a, b template) int { return strings.Compare(a.uri, b.uri) })
	items[LegacyTools] = withReplaced(items[Tools], items[LegacyTools])
	for k := range items {
		s.lists[k] = newList(Kind(k).member(), Kind(k).member(), items[k])
	}
	s.digest = digest(&s.lists)
	return s, used
}
