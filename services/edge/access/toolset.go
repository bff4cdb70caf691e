package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// Toolset is a choice of what services offer. It does not give a right to any of it.
type Toolset struct {
	// Offers are patterns of the members that are in the set unchanged, Hide of those
	// that are not in it.
	Offers []string `json:"offers,omitzero"`
	Hide   []string `json:"hide,omitzero"`
	// Tools and Prompts are members in another form, by the names that clients see.
	Tools   map[string]ToolMember   `json:"tools,omitzero"`
	Prompts map[string]PromptMember `json:"prompts,omitzero"`
}

// ToolMember is a tool of a set. Without a name of its own, the tool keeps its name.
type ToolMember struct {
	Tool string `json:"tool,omitzero"`
	Override
}

// PromptMember is a prompt of a set.
type PromptMember struct {
	Prompt string `json:"prompt,omitzero"`
	Override
}

// Override is how a member differs from what its service says.
type Override struct {
	Title       *string                   `json:"title,omitzero"`
	Description *string                   `json:"description,omitzero"`
	Fixed       map[string]jsontext.Value `json:"fixed,omitzero"`
}

var (
	setName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	// toolName is the form of a tool's name (2026-07-28, server/tools, Tool Names).
	toolName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)
)

// toolsets compiles the sets of the file.
func (c *compiler) toolsets(p *Policy) {
	p.toolsets = map[string]*toolset.Set{}
	if n := len(c.file.Toolsets); n > toolset.MaxSets {
		c.at("/toolsets", "there are %d toolsets, and at most %d may be", n, toolset.MaxSets)
	}
	for name, s := range c.file.Toolsets {
		at := place("toolsets", name)
		if !setName.MatchString(name) {
			c.at(at, "the name of a toolset has 1 to 64 letters, digits, - and _")
		}
		if n := len(s.Tools) + len(s.Prompts) + len(s.Offers) + len(s.Hide); n > toolset.MaxMembers {
			c.at(at, "a toolset has at most %d members and patterns; this one has %d", toolset.MaxMembers, n)
		}
		tools, prompts := map[string]*toolset.Member{}, map[string]*toolset.Member{}
		for shown, m := range s.Tools {
			tools[shown] = c.member(at.AppendToken("tools").AppendToken(shown), shown, m.Tool, m.Override, toolName.MatchString)
		}
		for shown, m := range s.Prompts {
			// Names of prompts are not restricted.
			prompts[shown] = c.member(at.AppendToken("prompts").AppendToken(shown), shown, m.Prompt, m.Override, func(name string) bool { return name != "" && len(name) <= toolset.MaxName })
			for argument, value := range m.Fixed {
				if value.Kind() != '"' {
					c.at(at.AppendToken("prompts").AppendToken(shown).AppendToken("fixed").AppendToken(argument), "an argument of a prompt is a text")
				}
			}
		}
		offers := newIndex(c.setPatterns(at.AppendToken("offers"), s.Offers))
		hide := newIndex(c.setPatterns(at.AppendToken("hide"), s.Hide))
		has := func(kind Kind) func(string) bool {
			return func(name string) bool {
				t := NewTarget(kind, name)
				return hide.any(&t) == nil && offers.find(kind, name) != nil && !slices.ContainsFunc(t.readings, func(one string) bool { return offers.find(kind, one) == nil })
			}
		}
		p.toolsets[name] = toolset.New(toolset.Config{
			Name: name, Key: setKey(name, s), Tools: tools, Prompts: prompts,
			HasTool: has(Tools), HasPrompt: has(Prompts), HasResource: has(Resources),
		})
	}
}

// setKey stands for everything that a set says.
func setKey(name string, s Toolset) string {
	said, _ := json.Marshal(s, json.Deterministic(true)) // it was read from JSON
	sum := sha256.Sum256(said)
	return name + " " + hex.EncodeToString(sum[:16])
}

// setPatterns are patterns of the kinds that a set can have.
func (c *compiler) setPatterns(at jsontext.Pointer, texts []string) []pattern {
	all := c.patterns(at, texts)
	for _, one := range all {
		if !one.all && (one.kind == Toolsets || one.kind == Sampling) {
			c.at(at, "%q is nothing that a toolset has: write tools/NAME, resources/URI or prompts/NAME", one.text)
		}
	}
	return all
}

func (c *compiler) member(at jsontext.Pointer, shown, of string, f Override, valid func(string) bool) *toolset.Member {
	if !valid(shown) {
		c.at(at, "%q is not a name that clients can be shown: at most %d characters, for a tool only letters, digits, _ . / and -", shown, toolset.MaxName)
	}
	if f.Title != nil && len(*f.Title) > toolset.MaxTitle || f.Description != nil && len(*f.Description) > toolset.MaxDescription {
		c.at(at, "a title has at most %d bytes, a description %d", toolset.MaxTitle, toolset.MaxDescription)
	}
	size := 0
	for _, value := range f.Fixed {
		size += len(value)
	}
	if len(f.Fixed) > toolset.MaxFixed || size > toolset.MaxFixedBytes {
		c.at(at.AppendToken("fixed"), "at most %d arguments are fixed, of %d bytes together", toolset.MaxFixed, toolset.MaxFixedBytes)
	}
	return &toolset.Member{Tool: cmp.Or(of, shown), Title: f.Title, Description: f.Description, Fixed: f.Fixed}
}

// Toolset is the set with a name, if the principal may use it, and otherwise nil.
func (p *Policy) Toolset(who gateway.Principal, name string) *toolset.Set {
	set := p.toolsets[name]
	if set == nil {
		return nil
	}
	if !p.Decide(who, NewTarget(Toolsets, name)).Allowed {
		return nil
	}
	return set
}

// Toolsets are the names of the sets that a principal may use, sorted.
func (p *Policy) Toolsets(who gateway.Principal) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.toolsets)), func(name string) bool { return p.Toolset(who, name) == nil })
}

// Toolset implements gateway.Access.
func (l *Live) Toolset(who gateway.Principal, name string) *toolset.Set {
	return l.Now().Toolset(who, name)
}

// Toolsets implements gateway.Access.
func (l *Live) Toolsets(who gateway.Principal) []string { return l.Now().Toolsets(who) }

// toolsets looks for sets that nobody may use, and for members that do not exist.
func (c *checker) toolsets() {
	for _, name := range slices.Sorted(maps.Keys(c.p.file.Toolsets)) {
		s, at := c.p.file.Toolsets[name], place("toolsets", name)
		t := NewTarget(Toolsets, name)
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.p.roles)), func(r *role) bool { return r.allow.any(&t) != nil }) {
			c.odd(at, "no role allows toolsets/%s, so nobody may use it", name)
		}
		c.list(at.AppendToken("offers"), s.Offers)
		c.list(at.AppendToken("hide"), s.Hide)
		for _, shown := range slices.Sorted(maps.Keys(s.Tools)) {
			c.there(at.AppendToken("tools").AppendToken(shown), fmt.Sprintf("tools/%s", cmp.Or(s.Tools[shown].Tool, shown)))
		}
		for _, shown := range slices.Sorted(maps.Keys(s.Prompts)) {
			c.there(at.AppendToken("prompts").AppendToken(shown), fmt.Sprintf("prompts/%s", cmp.Or(s.Prompts[shown].Prompt, shown)))
		}
	}
}
