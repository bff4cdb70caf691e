// Package catalogue is an edge's picture of what all services together offer:
// who serves a name, the schema its arguments must meet, and the lists that
// clients ask for as ready-made bytes.
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
	// Definition stands for all that the service said of it, with whose it is:
	// hexadecimal, the same at every edge, another after any change. Empty for what
	// no catalogue describes one by one, such as a prefix of resources.
	Definition string
	// Version is that of the service's code that says so.
	Version string
	// Instances are those that say the same; nil for all there are.
	Instances []string
	// Earlier are the other forms of the tool that instances have, the youngest
	// first. Empty unless several releases of the service run at once.
	Earlier []Target
	// Tool is nil unless the call is for a tool.
	Tool *Tool
	// since is when the service got the name, in Unix nanoseconds; 0 for a name that
	// an operator gave it.
	since int64
	// away says that the service is not there now.
	away bool
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
	// TaskTimeout is the longest that a run of a task may take; 0 for any time.
	TaskTimeout time.Duration
	// CallsTools: its service calls other tools on the caller's behalf.
	CallsTools bool
	// KeepsKeys: its service runs a call with an idempotency key once.
	KeepsKeys bool
	// LooseOutput says that the structured result need not be an object, as it
	// had to before 2026-07-28.
	LooseOutput bool
	// Output is what the tool says of its structured result; nil for nothing.
	Output *schema.Schema
}

// treatment is what a service says of how calls of its tool are to be treated,
// which the edge takes its word for.
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
	// The service that has it longest comes first, and the empty prefix last.
	templates        []template
	prefixes         []prefix
	listers          []Target
	files            map[string]Target
	directories      map[string]directory
	lists            [kinds]list
	digest           string
	problems, mended []string
	conflicts        []Conflict
	// grants are nil where services may do what they say.
	grants    Grants
	ungranted []string
	// newest is what services say of their tools now, quarantined those of which that is
	// not accepted.
	newest      map[string]definition.Definition
	quarantined []Quarantined
	services    []registry.Service
	sampler     Target
	// prompter has the prompts of tenants.
	prompter Target
	// said is what services tell models, instructions those of whom lists show something.
	said         []instruction
	instructions string

	// sight is nil where everything is seen; views are what others see. set is the
	// toolset through which they do; nil for none.
	view  View
	views *views
	set   *toolset.Set
}

// Problems are the entries left out and why: a name that another service
// offers already, a schema that does not compile.
func (s *Snapshot) Problems() []string { return s.problems }

// Private reports whether others see other lists.
func (s *Snapshot) Private() bool { return s.view != nil }

// Mended are the schemas that say true or false where clients want an object, and
// were given one that means the same: the tool, its service and the place.
func (s *Snapshot) Mended() []string { return s.mended }

// ToolName is what a tool is called that somebody names. A name with slashes that no
// tool has is read with underscores in their place: MCP recommends names without
// slashes, and one of those that Busbar was asked for has one.
// In a toolset it is the tool's own name, not the one that the set shows; empty for what
// the set does not have.
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

// HasTool reports whether a service has a tool of this very name, whoever sees it.
func (s *Snapshot) HasTool(own string) bool {
	_, there := s.tools[own]
	return there
}

// Tool returns the tool that somebody names: see ToolName.
func (s *Snapshot) Tool(said string) (Target, bool) {
	name := s.ToolName(said)
	t, ok := s.tools[name]
	return t, ok && s.shows(Tools, name, t.Service)
}

// Prompt returns the service that has the prompt of a name.
// A name that no catalogue has may be a tenant's own, or newer than the catalogue.
func (s *Snapshot) Prompt(name string) (Target, bool) {
	name, ok := s.PromptName(name)
	if !ok {
		return Target{}, false
	}
	return s.prompt(name)
}

// PromptName is the prompt's own name, not the one that a toolset shows.
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

// Sampler returns the service with a model, for calls that bring none.
func (s *Snapshot) Sampler() (Target, bool) { return s.sampler, s.sampler.Service != "" }

// Template returns who completes the variables of a URI template.
func (s *Snapshot) Template(uri string) (Target, bool) {
	for _, t := range s.templates {
		if t.uri == uri && !t.target.away && s.shows(Templates, uri, t.target.Service) {
			return t.target, true
		}
	}
	return Target{}, false
}

// compiled remembers schemas by their text, since most of them stay when the
// catalogue changes.
type compiled map[string]*schema.Schema

// memory is what one build leaves to the next.
type memory struct {
	schemas   compiled
	templates map[string]template
	// definitions are by the tools of catalogues, which do not change.
	definitions map[*busv1.Tool]definition.Definition
}
