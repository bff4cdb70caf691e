// Package toolset is a named choice of what services offer: some tools and prompts,
// under names of its own where it says so, and some resources. It gives no right:
// the policy decides on each call by the tool's own name.
package toolset

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of toolsets.
const (
	// MaxSets bounds the sets of one policy file, MaxMembers the members of one set.
	MaxSets, MaxMembers = 100, 1000
	// MaxName, MaxTitle and MaxDescription bound what a member is called, bytes.
	MaxName, MaxTitle, MaxDescription = 128, 256, 4 << 10
	// MaxFixed bounds the fixed arguments of one member, MaxFixedBytes them all as JSON.
	MaxFixed, MaxFixedBytes = 32, 16 << 10
)

// Member is a tool or prompt that a set shows in another form than its own.
type Member struct {
	// Of is the name that its service gives it.
	Of string
	// Title and Description take the place of its own; nil leaves those.
	Title, Description *string
	// Fixed are arguments that the edge puts in, and clients neither see nor give.
	Fixed map[string]jsontext.Value
}

// Names are the tools of a set, or its prompts.
type Names struct {
	members map[string]*Member
	// shown are the names of the members of each tool.
	shown map[string][]string
	// has reports whether the set has what no member is of, as it is.
	has func(name string) bool
}

// Config is what a set is made of.
type Config struct {
	Name string
	// Key is the same for sets that are the same, and for no others.
	Key string
	// Tools and Prompts are members by the names that clients see.
	Tools, Prompts map[string]*Member
	// HasTool, HasPrompt and HasResource choose the rest of the set.
	HasTool, HasPrompt, HasResource func(name string) bool
}

// Set is a toolset. It never changes.
type Set struct {
	name, key      string
	Tools, Prompts Names
	hasResource    func(uri string) bool
}

// New makes a set.
func New(c Config) *Set {
	return &Set{
		name: c.Name, key: c.Key, hasResource: c.HasResource,
		Tools: newNames(c.Tools, c.HasTool), Prompts: newNames(c.Prompts, c.HasPrompt),
	}
}

func newNames(members map[string]*Member, has func(string) bool) Names {
	n := Names{members: members, shown: map[string][]string{}, has: has}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		of := members[name].Of
		n.shown[of] = append(n.shown[of], name)
	}
	return n
}

// Name is what the set is called.
func (s *Set) Name() string { return s.name }

// Key stands for all that the set says.
func (s *Set) Key() string { return s.key }

// HasResource reports whether the set has a resource, template or skill, by its URI.
func (s *Set) HasResource(uri string) bool { return s.hasResource(uri) }

// Find returns the member of a name that clients see; one without changes for what is
// shown as it is.
func (n *Names) Find(shown string) (Member, bool) {
	if m, there := n.members[shown]; there {
		return *m, true
	}
	if len(n.shown[shown]) == 0 && n.has(shown) {
		return Member{Of: shown}, true
	}
	return Member{}, false
}

// Tool is Find for the name of a tool that somebody says; there reports whether any
// service has a tool of that own name. One with slashes that neither the set nor a
// service has is read with underscores in their place, as it is without a set: only so
// do its patterns and members see the name that is called.
func (s *Set) Tool(said string, there func(own string) bool) (Member, bool) {
	if strings.Contains(said, "/") && s.Tools.members[said] == nil && !there(said) {
		said = strings.ReplaceAll(said, "/", "_")
	}
	return s.Tools.Find(said)
}

// Has reports whether the set shows a tool or prompt of this own name. One whose name a
// member has taken is not shown.
func (n *Names) Has(of string) bool {
	return len(n.shown[of]) > 0 || n.members[of] == nil && n.has(of)
}

// Shown are the names under which the set shows what it Has.
func (n *Names) Shown(of string) []string {
	if shown := n.shown[of]; len(shown) > 0 {
		return shown
	}
	return []string{of}
}
