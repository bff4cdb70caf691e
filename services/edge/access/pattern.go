package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/uri"
)

// Kind is what a target is.
type Kind uint8

// Kinds of targets. Templates, completions and skills count as the resource or prompt
// that they are about, tasks as their tool.
const (
	Tools Kind = iota
	Resources
	Prompts
	Sampling
	Toolsets
	kinds
)

func (k Kind) String() string {
	return [kinds]string{"tools", "resources", "prompts", "sampling", "toolsets"}[k]
}

func parseKind(s string) (Kind, bool) {
	for k := range kinds {
		if k.String() == s {
			return k, true
		}
	}
	return 0, false
}

// Target is the thing that a caller wants to use.
type Target struct {
	Kind Kind
	// Name is the name of a tool or prompt, or the URI of a resource.
	Name string
	// readings are the other forms in which a service may understand the URI.
	readings []string
}

// NewTarget makes a target.
func NewTarget(kind Kind, name string) Target {
	t := Target{Kind: kind, Name: name}
	if kind == Resources {
		t.readings = slices.DeleteFunc(uri.Readings(name), func(one string) bool { return one == name })
	}
	return t
}

// ParseTarget reads a target in the notation of patterns, such as tools/echo.
func ParseTarget(s string) (Target, error) {
	kind, name, _ := strings.Cut(s, "/")
	k, ok := parseKind(kind)
	if !ok || name == "" {
		return Target{}, fmt.Errorf("%q is nothing to use: write tools/NAME, resources/URI, prompts/NAME, toolsets/NAME or sampling/createMessage", s)
	}
	return NewTarget(k, name), nil
}

func (t Target) String() string { return t.Kind.String() + "/" + t.Name }

// createMessage is the only name of the kind sampling.
const createMessage = "createMessage"

// pattern is the pattern of a rule.
type pattern struct {
	// text is the whole pattern, name the part after the kind.
	text, name string
	// all is set if the pattern fits every kind.
	all  bool
	kind Kind
	// literal is the text before the first *, or the whole name if exact is set. rest are
	// the texts after each *.
	literal string
	exact   bool
	rest    []string
}

func parsePattern(s string) (pattern, error) {
	if s == "*" {
		return pattern{text: s, name: s, all: true, rest: []string{""}}, nil
	}
	word, name, _ := strings.Cut(s, "/")
	kind, ok := parseKind(word)
	switch {
	case !ok && strings.Contains(word, "*"):
		return pattern{}, fmt.Errorf("%q is not a valid pattern: a kind has no *; \"*\" alone is everything", s)
	case !ok:
		return pattern{}, fmt.Errorf("%q is not a valid pattern: write tools/NAME, resources/URI, prompts/NAME, toolsets/NAME or sampling/createMessage, where * is any text, or \"*\" for everything", s)
	case name == "":
		return pattern{}, fmt.Errorf("%q has no name: %s/* is all of them", s, word)
	}
	pieces := strings.Split(name, "*")
	return pattern{text: s, name: name, kind: kind, literal: pieces[0], exact: len(pieces) == 1, rest: pieces[1:]}, nil
}

// read is the pattern for the readings of URIs. ok is false if it is the pattern itself.
func (p pattern) read() (_ pattern, ok bool) {
	if p.kind != Resources || p.all {
		return p, false
	}
	pieces := uri.Pattern(strings.Split(p.name, "*"))
	if strings.Join(pieces, "*") == p.name {
		return p, false
	}
	p.literal, p.exact, p.rest = pieces[0], len(pieces) == 1, pieces[1:]
	return p, true
}

// matchesName reports whether the pattern fits a name of its kind, in time linear in the
// name. * stands for any text, including none.
func (p *pattern) matchesName(name string) bool {
	name, ok := strings.CutPrefix(name, p.literal)
	if !ok || p.exact {
		return ok && name == ""
	}
	last := len(p.rest) - 1
	for _, piece := range p.rest[:last] {
		i := strings.Index(name, piece)
		if i < 0 {
			return false
		}
		name = name[i+len(piece):]
	}
	return strings.HasSuffix(name, p.rest[last])
}

// covers reports whether the pattern fits every name that another pattern fits.
func (p *pattern) covers(o *pattern) bool {
	// A * of the other pattern stands for any text, so only a * of p can match it.
	return p.all || !o.all && p.kind == o.kind && p.matchesName(o.name)
}
