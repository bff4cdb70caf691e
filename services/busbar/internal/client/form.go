package client

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// errorWidth is how much of a text an error shows, in cells.
const errorWidth = 60

// shape is what a schema says of a value, as far as it says how a text becomes one.
type shape struct {
	property
	Title      string           `json:"title"`
	Ref        string           `json:"$ref"`
	Const      jsontext.Value   `json:"const"`
	AnyOf      []jsontext.Value `json:"anyOf"`
	OneOf      []jsontext.Value `json:"oneOf"`
	Properties jsontext.Value   `json:"properties"`
	Required   []string         `json:"required"`
	Additional jsontext.Value   `json:"additionalProperties"`
	// types are those that the value may have; none for any.
	types []string
	// root is the schema in which references are.
	root jsontext.Value
}

// maxReferences bounds how many a schema may have on the way to one value.
const maxReferences = 16

// newShape reads a schema within another. A part that cannot be understood allows any value: the
// edge, which knows the whole schema, has the last word.
func newShape(schema, root jsontext.Value, depth int) *shape {
	s := &shape{root: root}
	if decode(schema, s) != nil {
		return &shape{root: root}
	}
	if s.Ref != "" && depth < maxReferences {
		if v := at(root, pointer(s.Ref)); v != nil {
			of := newShape(v, root, depth+1)
			of.Description, of.Title = first(s.Description, of.Description), first(s.Title, of.Title)
			return of
		}
	}
	switch s.Type.Kind() {
	case '"':
		s.types = []string{plainScalar(s.Type)}
	case '[':
		_ = decode(s.Type, &s.types) // of another type: any
	}
	if depth < maxReferences && s.types == nil {
		s.join(depth)
	}
	return s
}

// join has the types and choices of the schemas of which a value meets one.
func (s *shape) join(depth int) {
	any := false
	for _, v := range slices.Concat(s.AnyOf, s.OneOf) {
		of := newShape(v, s.root, depth+1)
		if len(of.Const) > 0 {
			s.Enum = append(s.Enum, of.Const)
			continue
		}
		any = any || of.types == nil
		s.types, s.Enum = append(s.types, of.types...), append(s.Enum, of.Enum...)
		if of.Properties != nil {
			s.Properties, s.Required, s.Additional = of.Properties, of.Required, of.Additional
		}
		if of.Items != nil {
			s.Items = of.Items
		}
	}
	if any {
		s.types = nil
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// pointer are the members on the way that a reference within the document names.
func pointer(ref string) []string {
	path, here := strings.CutPrefix(ref, "#/")
	if !here {
		return nil
	}
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return names
}

func (s *shape) is(kind string) bool { return len(s.types) == 1 && s.types[0] == kind }

func (s *shape) may(kind string) bool { return slices.Contains(s.types, kind) }

// member is the shape of a member; nil for a name that it does not have.
func (s *shape) member(name string) *shape {
	if v := at(s.Properties, []string{name}); v != nil {
		return newShape(v, s.root, 0)
	}
	if len(s.Additional) > 0 && s.Additional.Kind() == 'f' {
		return nil
	}
	return newShape(s.Additional, s.root, 0)
}

// element is the shape of an array's elements.
func (s *shape) element() *shape { return newShape(s.Items, s.root, 0) }

// value is what a text stands for. A text that may be a string is one unless it can be
// something narrower.
func (s *shape) value(text string) (jsontext.Value, error) {
	raw := jsontext.Value(text)
	kind := raw.Kind()
	valid := raw.IsValid()
	switch {
	case len(s.Enum) > 0 && !s.may("array"):
		return s.choice(text)
	case s.may("integer") && valid && kind == '0' && isInteger(text), s.may("number") && valid && kind == '0',
		s.may("boolean") && (text == "true" || text == "false"), s.may("null") && text == "null",
		s.may("object") && valid && kind == '{', s.may("array") && valid && kind == '[':
		return raw, nil
	case s.types == nil && valid:
		return raw, nil
	case s.types == nil, s.may("string"):
		return json.Marshal(text)
	case s.may("array"):
		v, err := s.element().value(text)
		if err != nil {
			return nil, err
		}
		return slices.Concat(jsontext.Value("["), v, jsontext.Value("]")), nil
	}
	return nil, fmt.Errorf("%q is not %s", terminal.Clip(text, errorWidth), aType(s.types))
}

// choice is the value of an enum that a text stands for.
func (s *shape) choice(text string) (jsontext.Value, error) {
	for _, v := range s.Enum {
		if plainScalar(v) == text || string(v) == text {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%q is not one of %s", terminal.Clip(text, errorWidth), strings.Join(s.choices(), ", "))
}

func isInteger(text string) bool {
	if len(text) > 1000 { // of a size that no service means
		return false
	}
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	if !expandable.MatchString(text) {
		return false
	}
	r, ok := new(big.Rat).SetString(text)
	return ok && r.IsInt()
}

// aType is types with an article.
func aType(types []string) string {
	all := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "integer", "array", "object":
			all[i] = "an " + t
		case "null":
			all[i] = t
		default:
			all[i] = "a " + t
		}
	}
	return strings.Join(all, " or ")
}

// form is an object schema whose members are filled in one by one.
type form struct{ *shape }

func newForm(schema jsontext.Value) *form { return &form{newShape(schema, schema, 0)} }

// names returns the names of the fields, in the order of the schema.
func (f *form) names() (names []string) {
	_ = eachMember(f.Properties, func(name string, _ jsontext.Value) error { // of another shape: no fields
		names = append(names, name)
		return nil
	})
	return names
}

func (f *form) field(name string) *shape { return f.member(name) }

func (f *form) required(name string) bool { return slices.Contains(f.Required, name) }

// errNoName is why there is no parameter for a text.
var errNoName = errors.New("write name=value for each argument, or one JSON object for all")
