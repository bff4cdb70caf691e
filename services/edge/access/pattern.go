package access

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Kind is what a target is.
type Kind uint8

// Kinds of targets. Templates, completions and skills are of the resource or prompt
// that they are about, tasks of their tool.
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

// Target is what somebody wants to use.
type Target struct {
	Kind Kind
	// Name of a tool or prompt, URI of a resource.
	Name string
	// plain is the URI without the ways to write it differently; empty where it is
	// the same.
	plain string
}

// NewTarget makes a target.
func NewTarget(kind Kind, name string) Target {
	t := Target{Kind: kind, Name: name}
	if kind == Resources {
		if p := plainURI(name); p != name {
			t.plain = p
		}
	}
	return t
}

// ParseTarget reads a target as patterns write it: tools/echo.
func ParseTarget(s string) (Target, error) {
	kind, name, _ := strings.Cut(s, "/")
	k, ok := parseKind(kind)
	if !ok || name == "" {
		return Target{}, fmt.Errorf("%q is nothing to use: write tools/NAME, resources/URI, prompts/NAME, toolsets/NAME or sampling/createMessage", s)
	}
	return NewTarget(k, name), nil
}

func (t Target) String() string { return t.Kind.String() + "/" + t.Name }

// createMessage is the one name of the kind sampling.
const createMessage = "createMessage"

// pattern is what a rule is about.
type pattern struct {
	// text is the whole of it, name what follows the kind.
	text, name string
	// all: every kind.
	all  bool
	kind Kind
	// literal is the text before the first *, or all of it where exact is set; rest
	// is what follows each *.
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
		return pattern{}, fmt.Errorf("%q is no pattern: a kind has no *; \"*\" alone is everything", s)
	case !ok:
		return pattern{}, fmt.Errorf("%q is no pattern: write tools/NAME, resources/URI, prompts/NAME, toolsets/NAME or sampling/createMessage, where * is any text, or \"*\" for everything", s)
	case name == "":
		return pattern{}, fmt.Errorf("%q has no name: %s/* is all of them", s, word)
	}
	pieces := strings.Split(name, "*")
	return pattern{text: s, name: name, kind: kind, literal: pieces[0], exact: len(pieces) == 1, rest: pieces[1:]}, nil
}

// plain is the pattern for plain URIs; not ok where it is the pattern itself.
func (p pattern) plain() (_ pattern, ok bool) {
	name := lowerHost(p.name)
	if p.kind != Resources || p.all || name == p.name && !strings.Contains(name, "%") {
		return p, false
	}
	pieces := strings.Split(name, "*")
	for i, piece := range pieces {
		pieces[i] = unescape(piece)
	}
	p.literal, p.rest = pieces[0], pieces[1:]
	return p, true
}

// matchesName reports whether the pattern fits a name of its kind, in time linear
// in the name: * is any text, also none.
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

// covers reports whether the pattern fits every name that another one does.
func (p *pattern) covers(o *pattern) bool {
	// A * of the other, as any text, can only be where p has one.
	return p.all || !o.all && p.kind == o.kind && p.matchesName(o.name)
}

// plainURI writes a URI without escapes, dot segments and doubled slashes, scheme and
// host in lower case: as the service behind it may read it.
func plainURI(uri string) string {
	scheme, rest, ok := strings.Cut(lowerHost(unescape(uri)), ":")
	if !ok {
		return scheme
	}
	host, way := "", rest
	after, hosted := strings.CutPrefix(rest, "//")
	if hosted {
		if host, way, ok = strings.Cut(after, "/"); !ok {
			return scheme + "://" + host
		}
		way = "/" + way
	}
	clean := path.Clean("/" + way)
	if strings.HasSuffix(way, "/") && clean != "/" {
		clean += "/"
	}
	rooted := strings.HasPrefix(way, "/")
	if scheme == "file" && rooted { // of this machine, however that is written (RFC 8089)
		return "file://" + strings.TrimPrefix(host, "localhost") + clean
	}
	if hosted {
		return scheme + "://" + host + clean
	}
	if !rooted {
		clean = clean[1:]
	}
	return scheme + ":" + clean
}

// lowerHost writes scheme and host of a URI, or of a pattern of some, in lower case.
func lowerHost(uri string) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || strings.Contains(scheme, "/") {
		return uri
	}
	host := ""
	if after, hosted := strings.CutPrefix(rest, "//"); hosted {
		end := strings.IndexByte(after, '/')
		if end < 0 {
			end = len(after)
		}
		host, rest = "//"+after[:end], after[end:]
	}
	return strings.ToLower(scheme) + ":" + strings.ToLower(host) + rest
}

// unescape is a text without percent-encoding, or the text itself if that is not
// valid.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
