package service

import (
	"encoding"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/busbar-mcp/busbar/libs/schema"
)

// anyObject is the schema of a tool that takes its arguments unread.
var anyObject = []byte(`{"type":"object"}`)

func inputSchema[In any]() ([]byte, error) {
	if reflect.TypeFor[In]() == reflect.TypeFor[[]byte]() {
		return anyObject, nil
	}
	s, err := infer[In]()
	if err != nil {
		return nil, err
	}
	var root struct {
		Type jsontext.Value `json:"type"`
	}
	if err := json.Unmarshal(s, &root); err != nil || string(root.Type) != `"object"` {
		return nil, errors.New("arguments must be a struct, a map or []byte")
	}
	return s, nil
}

// outputSchema is empty for results that say themselves what they hold.
func outputSchema[Out any]() ([]byte, error) {
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[*Result](), reflect.TypeFor[Result](), reflect.TypeFor[any]():
		return nil, nil
	}
	return infer[Out]()
}

// infer describes what a type is as JSON. The inference goes by kinds; what
// marshals otherwise is told to it, and mended in what it returns.
func infer[T any]() ([]byte, error) {
	t := reflect.TypeFor[T]()
	known := asMarshalled{}
	known.add(t, map[reflect.Type]bool{})
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		return nil, err
	}
	known.mend(t, s)
	raw, err := marshal(s)
	if err != nil {
		return nil, err
	}
	plain, _, err := schema.Plain(raw)
	return plain, err
}

// asMarshalled has the types whose JSON is not what their kind says.
type asMarshalled map[reflect.Type]*jsonschema.Schema

var (
	text     = &jsonschema.Schema{Type: "string"}
	base64   = &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	anything = &jsonschema.Schema{}
)

// implements reports whether a value of a type, or a pointer to it, is an M.
func implements[M any](t reflect.Type) bool {
	m := reflect.TypeFor[M]()
	return t.Implements(m) || reflect.PointerTo(t).Implements(m)
}

// special is the schema of a type that is marshalled in its own way; nil for
// others.
func special(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[slog.Level]():
		return text
	case t.Kind() == reflect.Interface:
		return anything
	case implements[json.MarshalerTo](t), implements[json.Marshaler](t):
		return anything
	case implements[encoding.TextAppender](t), implements[encoding.TextMarshaler](t):
		return text
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]():
		return base64
	}
	return nil
}

// add finds the special types in a type.
func (m asMarshalled) add(t reflect.Type, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if seen[t] {
		return
	}
	seen[t] = true
	if s := special(t); s != nil {
		m[t] = s
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		m.add(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() {
				m.add(f.Type, seen)
			}
		}
	}
}

// mend corrects the schema of a type where the inference does not know how it is
// marshalled: nil slices and maps are [] and {} here, which clients that generate
// types handle better than null; pointers to any value; numbers as strings.
func (m asMarshalled) mend(t reflect.Type, s *jsonschema.Schema) {
	if s == nil {
		return
	}
	pointer := false
	for t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	if own := m[t]; own != nil {
		if own == anything {
			s.Types = nil // the inference takes a pointer to any value for null
		}
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if !pointer && s.Types != nil {
			s.Type, s.Types = "array", nil
		}
		m.mend(t.Elem(), s.Items)
	case reflect.Map:
		if !pointer && s.Types != nil {
			s.Type, s.Types = "object", nil
		}
		m.mend(t.Elem(), s.AdditionalProperties)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			property := s.Properties[name]
			if f.Anonymous || property == nil {
				continue
			}
			m.mend(f.Type, property)
			if slices.Contains(strings.Split(options, ","), "string") {
				quoted(f.Type, property)
			}
		}
	}
}

// quoted makes the schema of a number that of its text.
func quoted(t reflect.Type, s *jsonschema.Schema) {
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	if k := t.Kind(); k < reflect.Int || k > reflect.Float64 {
		return
	}
	s.Minimum, s.Maximum, s.Type, s.Types = nil, nil, "string", nil
	if pointer {
		s.Type, s.Types = "", []string{"null", "string"}
	}
}
