package service

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
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
	if s.Type != "object" {
		return nil, errors.New("arguments must be a struct, a map or []byte")
	}
	return marshal(s)
}

// outputSchema is empty for results that say themselves what they hold.
func outputSchema[Out any]() ([]byte, error) {
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[*Result](), reflect.TypeFor[Result](), reflect.TypeFor[any]():
		return nil, nil
	}
	s, err := infer[Out]()
	if err != nil {
		return nil, err
	}
	return marshal(s)
}

// asMarshalled corrects the inference where JSON looks different.
var asMarshalled = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[[]byte]():         {Type: "string", ContentEncoding: "base64"},
	reflect.TypeFor[jsontext.Value](): {},
}

func infer[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: asMarshalled})
	if err != nil {
		return nil, err
	}
	noNullArrays(s)
	return s, nil
}

// noNullArrays takes back the inference's null for nil slices and maps: they
// are marshalled as [] and {} here, and clients that generate types from
// schemas handle plain types better.
func noNullArrays(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" && (s.Types[1] == "array" || s.Types[1] == "object" && s.Properties == nil) {
		s.Type, s.Types = s.Types[1], nil
	}
	noNullArrays(s.Items)
	noNullArrays(s.AdditionalProperties)
	for _, p := range s.Properties {
		noNullArrays(p)
	}
}
