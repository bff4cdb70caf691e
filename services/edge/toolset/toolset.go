// Package toolset defines toolsets: named choices of what services offer. A set has some tools and
// prompts, optionally under its own names, and some resources. It grants no right: the policy decides on
// each call by the tool's own name. Start at New and Set.
package toolset

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of toolsets.
const (
	// MaxSets is the limit of sets in one policy file, MaxMembers of members in one set.
	//limit:policy@MaxSets toolsets in an access file
	//limit:policy@MaxMembers members and patterns of a toolset
	MaxSets, MaxMembers = 100, 1000
	// MaxName, MaxTitle and MaxDescription bound the texts of a member, in bytes.
	//limit:policy.bytes@MaxName name of a member
	//limit:policy.bytes@MaxTitle title of a member
	//limit:policy@MaxDescription description of a member
	MaxName, MaxTitle, MaxDescription = 128, 256, 4 << 10
	// MaxFixed bounds the fixed arguments of one member, MaxFixedBytes their total size as JSON.
	MaxFixed, MaxFixedBytes = 32, 16 << 10
)

// Member is a tool or prompt that a set shows in a changed form.
type Member struct {
	// Tool is its name in its service.
	Tool string
	// Title and Description replace its own; nil keeps them.
	Title, Description *string
	// Fixed are arguments that the edge adds; clients neither see nor send them.
	Fixed map[string]jsontext.Value
}

// Names are the tools of a set, or its prompts.
type Names struct {
	members map[string]*Member
	// shown lists the names of the members of each tool.
	shown map[string][]string
	// has reports whether the set contains a tool without a member, unchanged.
	has func(name string) bool
}

// Config configures a set.
type Config struct {
	Name string
	// Key is equal for equal sets only.
	Key string
	// Tools and Prompts are members by the names that clients see.
	Tools, Prompts map[string]*Member
	// HasTool, HasPrompt and HasResource choose the rest of the set.
	HasTool, HasPrompt, HasResource func(name string) bool
}

// Set is a toolset. It is immutable.
type Set struct {
	name, key      string
	Tools, Prompts Names
	hasResource    func(uri string) bool
}

// New returns a set.
func New(c Config) *Set {
	return &Set{
		name: c.Name, key: c.Key, hasResource: c.HasResource,
		Tools: newNames(c.Tools, c.HasTool), Prompts: newNames(c.Prompts, c.HasPrompt),
	}
}

func newNames(members map[string]*Member, has func(string) bool) Names {
	n := Names{members: members, shown: map[string][]string{}, has: has}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		of := members[name].Tool
		n.shown[of] = append(n.shown[of], name)
	}
	return n
}

// Name returns the name of the set.
func (s *Set) Name() string { return s.name }

// Key identifies the content of the set.
func (s *Set) Key() string { return s.key }

// HasResource reports whether the set has a resource, template or skill, by its URI.
func (s *Set) HasResource(uri string) bool { return s.hasResource(uri) }

// Find returns the member of a name that clients see; for an unchanged tool it is a member without
// changes.
func (n *Names) Find(shown string) (Member, bool) {
	if m, there := n.members[shown]; there {
		return *m, true
	}
	if len(n.shown[shown]) == 0 && n.has(shown) {
		return Member{Tool: shown}, true
	}
	return Member{}, false
}

// Tool is Find for the name of a tool in a request; there reports whether any service has a tool of that
// own name. If neither the set nor a service has a name with slashes, they are replaced by underscores, as
// happens without a set: only then do the set's patterns and members see the called name.
func (s *Set) Tool(said string, there func(own string) bool) (Member, bool) {
	if strings.Contains(said, "/") && s.Tools.members[said] == nil && !there(said) {
		said = strings.ReplaceAll(said, "/", "_")
	}
	return s.Tools.Find(said)
}

// Has reports whether the set shows a tool or prompt of this own name. If a member has taken the name, the
// tool is not shown.
func (n *Names) Has(of string) bool {
	return len(n.shown[of]) > 0 || n.members[of] == nil && n.has(of)
}

// Aliases returns the names under which the set shows a tool or prompt.
func (n *Names) Aliases(of string) []string {
	if shown := n.shown[of]; len(shown) > 0 {
		return shown
	}
	return []string{of}
}
