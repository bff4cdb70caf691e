package client

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// assigns reports whether a text has the form name=value.
func assigns(text string) bool {
	return strings.Contains(text, "=") && !strings.ContainsAny(text[:1], "{[\"@-= \t\n")
}

// maxPath bounds how deep name.of.a.member=value goes.
const maxPath = 32

// assign makes a JSON object of texts of the form name=value: the input schema says of
// which type each value is. name.member=value is a member of an object, a name that
// comes again adds to an array, and @FILE in place of a value is what read gives for it.
func assign(schema jsontext.Value, texts []string, read func(file string) ([]byte, error)) (jsontext.Value, error) {
	root := &branch{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, &UsageError{Message: fmt.Sprintf("%q: %v", terminal.Clip(text, errorWidth), errNoName)}
		}
		if file, is := strings.CutPrefix(value, "@"); is && !strings.HasPrefix(file, "@") {
			b, err := read(file)
			if err != nil {
				return nil, err
			}
			value = string(b)
		} else if is {
			value = file // @@ is an @ that names no file
		}
		if err := root.set(newShape(schema, schema, 0), name, "", value); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, &UsageError{Message: "the arguments cannot be written as JSON: " + err.Error()}
	}
	return checkArguments(b)
}

// branch is a value under construction: an object that has members, an array that has
// elements, or what leaf says.
type branch struct {
	names    []string
	members  map[string]*branch
	elements []jsontext.Value
	leaf     jsontext.Value
}

// MarshalJSONTo writes the value, members in the order in which they came.
func (b *branch) MarshalJSONTo(e *jsontext.Encoder) error {
	switch {
	case b.leaf != nil:
		return e.WriteValue(b.leaf)
	case b.elements != nil:
		return json.MarshalEncode(e, b.elements)
	}
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, name := range b.names {
		if err := e.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		if err := b.members[name].MarshalJSONTo(e); err != nil {
			return err
		}
	}
	return e.WriteToken(jsontext.EndObject)
}

// set gives the value at a path below a branch of a shape; parent is how its user
// names the branch.
func (b *branch) set(s *shape, path, parent, text string) error {
	name, rest, deeper := path, "", false
	if at(s.Properties, []string{path}) == nil { // no name that has dots itself
		name, rest, deeper = strings.Cut(path, ".")
	}
	called := name
	if parent != "" {
		called = parent + "." + name
	}
	wrong := func(format string, args ...any) error {
		return &UsageError{Message: "parameter " + called + ": " + fmt.Sprintf(format, args...)}
	}
	of := s.member(name)
	switch {
	case of == nil:
		return unknownParameter(s, called, name)
	case name == "" || deeper && rest == "" || strings.Count(called, ".") > maxPath:
		return &UsageError{Message: fmt.Sprintf("%q: %v", terminal.Clip(path, errorWidth), errNoName)}
	}
	child := b.members[name]
	switch {
	case deeper && of.types != nil && !of.may("object"):
		return wrong("it is %s and has no members", aType(of.types))
	case deeper:
		if child == nil {
			child = b.add(name)
		}
		if child.leaf != nil || child.elements != nil {
			return wrong("it is given as a whole and member by member")
		}
		return child.set(of, rest, called, text)
	case child != nil && child.members != nil:
		return wrong("it is given as a whole and member by member")
	case child != nil && child.elements == nil:
		return wrong("it is given twice")
	}
	if of.may("array") && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		v, err := of.element().value(text)
		if err != nil {
			return wrong("%v", err)
		}
		if child == nil {
			child = b.add(name)
		}
		child.elements = append(child.elements, v)
		return nil
	}
	if child != nil {
		return wrong("it is given as a whole and element by element")
	}
	v, err := of.value(text)
	if err != nil {
		return wrong("%v", err)
	}
	b.add(name).leaf = v
	return nil
}

func (b *branch) add(name string) *branch {
	if b.members == nil {
		b.members = map[string]*branch{}
	}
	child := &branch{}
	b.names, b.members[name] = append(b.names, name), child
	return child
}

// unknownParameter says which there are.
func unknownParameter(s *shape, called, name string) error {
	f := form{s}
	names := f.names()
	message := "there is no parameter " + called
	switch near := nearest(name, names); {
	case len(near) > 0:
		message += "; did you mean " + strings.Join(near, ", ") + "?"
	case len(names) == 0:
		message += ": it takes no parameters"
	default:
		message += "; there are " + strings.Join(names, ", ")
	}
	return &UsageError{Message: message}
}

// readSource reads what a value takes from a file, or from stdin for "-".
func readSource(ctx context.Context, file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return readInput(ctx, stdin)
	}
	return readFile(file)
}
