package service

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Action is the user's reaction to a form.
type Action = string

// The user's actions.
const (
	// Accepted: the form is filled in.
	Accepted Action = "accept"
	// Declined: the user said no.
	Declined Action = "decline"
	// Cancelled: the user closed the form without a word.
	Cancelled Action = "cancel"
)

// AskFor asks the user to fill in a T, and returns it with the user's action. T is set only if the
// action is Accepted. The form has T's fields in order, described by their tags jsonschema and
// schema. The fields of T are strings, numbers, booleans, choices (a string with an enum) and lists
// of choices; a form can have nothing else. Fields with omitzero, or a default, need not be filled
// in.
//
// It is Call.Ask with one question: while there is no answer it returns an error, which
// the handler must return unchanged, and the handler runs again from its start later.
func AskFor[T any](c *Call, key, message string) (T, Action, error) {
	var out T
	f, err := formOf[T]()
	if err != nil {
		return out, "", fmt.Errorf("the form of question %s: %w", key, err)
	}
	answers, err := c.Ask(Elicit(key, message, f.schema))
	if err != nil {
		return out, "", err
	}
	filled := f.defaults.of(&out)
	action, err := answers.Elicited(key, filled)
	if err != nil || action != Accepted {
		var none T
		return none, action, err
	}
	return out, action, nil
}

// form is the form that a user sees for a type.
type form struct {
	schema   jsontext.Value
	defaults defaults
	err      error
}

// forms caches the form of each type.
var forms sync.Map

func formOf[T any]() (*form, error) {
	t := reflect.TypeFor[T]()
	known, ok := forms.Load(t)
	if !ok {
		known, _ = forms.LoadOrStore(t, newForm(t))
	}
	f := known.(*form)
	return f, f.err
}

func newForm(t reflect.Type) *form {
	s, d, err := inferArguments(t)
	if err != nil {
		return &form{err: err}
	}
	for _, name := range s.PropertyOrder {
		if err := fits(s.Properties[name]); err != nil {
			return &form{err: fmt.Errorf("field %s: %w", name, err)}
		}
		if optional(s.Properties[name]) {
			s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		}
	}
	s.AdditionalProperties = nil // MCP has no place for it in a form
	raw, err := marshal(s)
	return &form{schema: raw, defaults: d, err: err}
}

// fits requires that a form can have this field.
func fits(s *jsonschema.Schema) error {
	switch typeOf(s) {
	case "string", "integer", "number", "boolean":
		return nil
	case "array":
		if s.Items != nil && s.Items.Type == "string" && len(s.Items.Enum) > 0 {
			return nil
		}
	}
	return errors.New("a form has text, numbers, yes and no, choices and lists of choices")
}

// optional removes null from the types of a schema and reports whether it was there: in forms and
// texts, a value that is not given is left out.
func optional(s *jsonschema.Schema) bool {
	if !slices.Contains(s.Types, "null") {
		return false
	}
	s.Type, s.Types = typeOf(s), nil
	s.Enum = slices.DeleteFunc(s.Enum, func(v any) bool { return v == nil })
	return true
}

// defaults is a JSON object with the default values of a type's fields; nil for none.
type defaults jsontext.Value

// of sets the defaults in v, a pointer, and returns it.
func (d defaults) of(v any) any {
	if d != nil {
		_ = json.Unmarshal(d, v, durations) // they were read when they were declared
	}
	return v
}
