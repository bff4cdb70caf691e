// Package catalogue is an edge's picture of what all services together offer: which service
// serves a name, the schema of its arguments, and the lists that clients ask for, as ready-made
// bytes. An immutable Snapshot has it all. Start with Live, which builds a snapshot at every
// change, and build.go; owners.go decides between services that offer the same name, and view.go
// has the snapshot as one caller sees it.
package catalogue

import (
	"strings"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/services/edge/definition"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// Target is what a call reaches.
type Target struct {
	Service string
	// Definition stands for the service's whole definition of it, and for the service:
	// hexadecimal, the same at every edge, and different after any change. It is empty for
	// targets that no catalogue describes one by one, such as a prefix of resources.
	Definition string
	// Version is the version of the service's code with this definition.
	Version string
	// Instances are the instances with the same definition; nil for all.
	Instances []string
	// Earlier are the other forms of the tool that instances have, the youngest first. Empty
	// unless several releases of the service run at once.
	Earlier []Target
	// Tool is nil unless the call is for a tool.
	Tool *Tool
	// since is when the service got the name, in Unix nanoseconds; 0 for a name that an operator
	// gave it.
	since int64
	// away says that the service is not there now.
	away bool
}

// Tool is what the edge needs to know of a tool.
type Tool struct {
	// Title is the tool's name for people; empty for none.
	Title  string
	Schema *schema.Schema
	// Timeout is the longest that a call may take; 0 for the edge's default.
	Timeout              time.Duration
	ReadOnly             bool
	Idempotent           bool
	RequiresUserApproval bool
	// Cache is how long a result may be kept; CacheShared allows keeping it for all callers.
	Cache       time.Duration
	CacheShared bool
	// TaskTimeout is the longest that a run of a task may take; 0 for any time.
	TaskTimeout time.Duration
	// CallsTools: its service calls other tools on the caller's behalf.
	CallsTools bool
	// KeepsKeys: its service runs a call with an idempotency key once.
	KeepsKeys bool
	// LooseOutput says that the structured result need not be an object, as it had to before
	// 2026-07-28.
	LooseOutput bool
	// Output is the schema of its structured result; nil for none.
	Output *schema.Schema
}

// treatment is a service's declaration of how calls of its tool are to be treated, which the edge
// trusts.
type treatment struct {
	ReadOnly, RequiresUserApproval, KeepsKeys, CallsTools, CacheShared bool
	Timeout                                                            time.Duration
}

func (t *Tool) said() treatment {
	return treatment{t.ReadOnly, t.RequiresUserApproval, t.KeepsKeys, t.CallsTools, t.CacheShared, t.Timeout}
}

// Snapshot is the catalogue at one moment. It never changes.
type Snapshot struct {
	tools, prompts, resources map[string]Target
	// The service that has had it longest comes first, and the empty prefix last.
	templates        []template
	prefixes         []prefix
	listers          []Target
	files            map[string]Target
	directories      map[string]directory
	lists            [kinds]list
	digest           string
	problems, mended []string
	conflicts        []Conflict
	// grants are nil if services may do whatever they declare.
	grants    Grants
	ungranted []string
	// newest are the present definitions of all tools, quarantined the tools whose definition is
	// not accepted.
	newest      map[string]definition.Definition
	quarantined []Quarantined
	services    []registry.Service
	sampler     Target
	// prompter has the prompts of tenants.
	prompter Target
	// said are the services' texts for models, instructions the texts of the services that lists
	// show.
	said         []instruction
	instructions string

	// view is nil if everything is seen; views are the snapshot in other views. set is the
	// toolset of the view; nil for none.
	view  View
	views *views
	set   *toolset.Set
}

// Problems are the entries that were left out, with the reason: a name that another service
// offers already, or a schema that does not compile.
func (s *Snapshot) Problems() []string { return s.problems }

// Private reports whether other callers see other lists.
func (s *Snapshot) Private() bool { return s.view != nil }

// Mended are the schemas that were true or false, which clients reject, and that were replaced by
// an object with the same meaning: the tool, its service and the place.
func (s *Snapshot) Mended() []string { return s.mended }

// ToolName is the tool's own name, given the name that a client uses. A name with slashes that no
// tool has is read with underscores in their place: MCP recommends names without slashes, and one
// of the names that Busbar was asked for has one. In a toolset, said is the name that the set
// shows; the result is empty if the set does not have it.
func (s *Snapshot) ToolName(said string) string {
	if s.set != nil {
		m, _ := s.set.Tool(said, s.HasTool)
		return m.Tool
	}
	if strings.Contains(said, "/") && !s.HasTool(said) {
		return strings.ReplaceAll(said, "/", "_")
	}
	return said
}

// HasTool reports whether a service has a tool of exactly this name, whether it is visible or
// not.
func (s *Snapshot) HasTool(own string) bool {
	_, there := s.tools[own]
	return there
}

// Tool returns the tool that a client names: see ToolName.
func (s *Snapshot) Tool(said string) (Target, bool) {
	name := s.ToolName(said)
	t, ok := s.tools[name]
	return t, ok && s.shows(Tools, name, t.Service)
}

// Prompt returns the service that has the prompt of a name. A name that no catalogue has may be a
// tenant's own prompt, or newer than the catalogue.
func (s *Snapshot) Prompt(name string) (Target, bool) {
	name, ok := s.PromptName(name)
	if !ok {
		return Target{}, false
	}
	return s.prompt(name)
}

// PromptName is the prompt's own name, not the name that a toolset shows.
func (s *Snapshot) PromptName(shown string) (string, bool) {
	if s.set == nil {
		return shown, true
	}
	m, ok := s.set.Prompts.Find(shown)
	return m.Tool, ok
}

// prompt is Prompt by the prompt's own name.
func (s *Snapshot) prompt(name string) (Target, bool) {
	t, ok := s.prompts[name]
	if !ok && s.prompter.Service != "" {
		// It may be a tenant's, or newer than this catalogue: the service knows.
		t, ok = s.prompter, true
	}
	return t, ok && s.shows(Prompts, name, t.Service)
}

// prompting reports whether a service has the prompts of a tenant.
func (s *Snapshot) prompting(tenant string) bool { return tenant != "" && s.prompter.Service != "" }

// Sampler returns the service with a model, for callers that have none.
func (s *Snapshot) Sampler() (Target, bool) { return s.sampler, s.sampler.Service != "" }

// Template returns the service that completes the variables of a URI template.
func (s *Snapshot) Template(uri string) (Target, bool) {
	for _, t := range s.templates {
		if t.uri == uri && !t.target.away && s.shows(Templates, uri, t.target.Service) {
			return t.target, true
		}
	}
	return Target{}, false
}

// compiled remembers schemas by their text, since most of them stay when the catalogue changes.
type compiled map[string]*schema.Schema

// memory is what one build leaves to the next.
type memory struct {
	schemas   compiled
	templates map[string]template
	// definitions are by the tools of catalogues, which do not change.
	definitions map[*busv1.Tool]definition.Definition
}
