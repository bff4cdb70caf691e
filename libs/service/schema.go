package service

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// anyObject is the input schema of a tool that takes its arguments as raw JSON.
var anyObject = []byte(`{"type":"object"}`)

func inputSchema[In any]() ([]byte, defaults, error) {
	t := reflect.TypeFor[In]()
	if t == reflect.TypeFor[[]byte]() {
		return anyObject, nil, nil
	}
	s, d, err := inferArguments(t)
	if err != nil {
		return nil, nil, err
	}
	raw, err := plain(s)
	return raw, d, err
}

// inferArguments returns the schema of a type whose values come from a caller, and the default
// values of its fields.
func inferArguments(t reflect.Type) (*jsonschema.Schema, defaults, error) {
	m := &mender{types: asMarshalled{}, arguments: true}
	s, err := m.infer(t)
	if err != nil {
		return nil, nil, err
	}
	if s.Type != "object" {
		return nil, nil, errors.New("arguments must be a struct, a map or []byte")
	}
	if m.defaults == nil {
		return s, nil, nil
	}
	d, err := marshal(m.defaults)
	if err == nil {
		err = json.Unmarshal(d, reflect.New(t).Interface(), durations)
	}
	return s, d, err
}

// outputSchema is empty for *Result, whose content is up to the handler, and for text, which has no
// structured content.
func outputSchema[Out any]() ([]byte, error) {
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[*Result](), reflect.TypeFor[Result](), reflect.TypeFor[any]():
		return nil, nil
	}
	s, err := (&mender{types: asMarshalled{}}).infer(reflect.TypeFor[Out]())
	if err != nil || s.Type == "string" {
		return nil, err
	}
	return plain(s)
}

// mender makes the schema of one type. The inference follows Go kinds. Types that marshal in
// another way are given to it, and its result is corrected.
type mender struct {
	types asMarshalled
	// arguments is set if values of the type come from a caller. defaults has the default values of
	// its fields.
	arguments bool
	defaults  map[string]jsontext.Value
}

func (m *mender) infer(t reflect.Type) (*jsonschema.Schema, error) {
	m.types.add(t, map[reflect.Type]bool{})
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: m.types})
	if err != nil {
		return nil, err
	}
	return s, m.mend(t, s, 0)
}

// asMarshalled has the schemas of types whose JSON differs from their kind.
type asMarshalled map[reflect.Type]*jsonschema.Schema

var (
	text     = &jsonschema.Schema{Type: "string"}
	instant  = &jsonschema.Schema{Type: "string", Format: "date-time"}
	base64   = &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	anything = &jsonschema.Schema{}
)

// implements reports whether a value of a type, or a pointer to it, is an M.
func implements[M any](t reflect.Type) bool {
	m := reflect.TypeFor[M]()
	return t.Implements(m) || reflect.PointerTo(t).Implements(m)
}

// special is the schema of a type that has its own way of marshalling; nil for others.
func special(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return instant
	case t == reflect.TypeFor[slog.Level]():
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

// mend corrects the schema of a type where the inference does not know how it is marshalled: nil
// slices and maps are [] and {} here, which clients that generate types handle better than null;
// pointers to any value; numbers as strings; and the schema tags of fields. depth is the distance
// from the root.
func (m *mender) mend(t reflect.Type, s *jsonschema.Schema, depth int) error {
	if s == nil {
		return nil
	}
	pointer := false
	for t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	if own := m.types[t]; own != nil {
		if own == anything {
			s.Types = nil // the inference takes a pointer to any value for null
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if !pointer && s.Types != nil {
			s.Type, s.Types = "array", nil
		}
		return m.mend(t.Elem(), s.Items, depth+1)
	case reflect.Map:
		if !pointer && s.Types != nil {
			s.Type, s.Types = "object", nil
		}
		return m.mend(t.Elem(), s.AdditionalProperties, depth+1)
	case reflect.Struct:
		var wrong []string // of every field, so that all can be fixed at once
		for _, f := range reflect.VisibleFields(t) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if _, limited := f.Tag.Lookup("schema"); !f.IsExported() && !f.Anonymous && (limited || name != "" && name != "-") {
				wrong = append(wrong, fmt.Sprintf("field %s has tags and is not exported, so that nobody could give it: begin its name with a capital letter", f.Name))
				continue
			}
			if name == "" {
				name = f.Name
			}
			property := s.Properties[name]
			if f.Anonymous || property == nil {
				continue
			}
			if err := m.mend(f.Type, property, depth+1); err != nil {
				wrong = append(wrong, err.Error())
				continue
			}
			if slices.Contains(strings.Split(options, ","), "string") {
				quoted(f.Type, property)
			}
			if tag, ok := f.Tag.Lookup("schema"); ok {
				err := constrain(property, tag)
				if err == nil {
					err = m.fill(name, s, property, depth)
				}
				if err != nil {
					wrong = append(wrong, fmt.Sprintf("field %s: %v", f.Name, err))
				}
			}
		}
		if len(wrong) > 0 {
			return errors.New(strings.Join(wrong, "; "))
		}
	}
	return nil
}

// fill records the default of an optional field.
func (m *mender) fill(name string, of, property *jsonschema.Schema, depth int) error {
	switch {
	case property.Default == nil || !m.arguments:
		return nil
	case depth > 0 || typeOf(property) == "object":
		return errors.New("a default is only for a field of the arguments themselves that is not an object")
	}
	of.Required = slices.DeleteFunc(of.Required, func(r string) bool { return r == name })
	if m.defaults == nil {
		m.defaults = map[string]jsontext.Value{}
	}
	m.defaults[name] = jsontext.Value(property.Default)
	return nil
}

// quoted turns the schema of a number into a schema of its text.
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
