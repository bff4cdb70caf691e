package schema

import (
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds one validation by the number of comparisons of a part of the schema with a part of
// the value. With $ref, a schema of 1 KB can compare one value 2^40 times.
//
//limit:call steps to check arguments against a schema with `$ref` | `invalid_params`
const maxSteps = 250_000

// limited is a compiled schema whose validations stop when they take too many steps. Only
// one validation at a time may use it.
type limited struct {
	compiled *jsonschema.Schema
	left     int
}

// limit makes each part of a compiled schema count its comparisons.
func limit(compiled *jsonschema.Schema) *limited {
	l := &limited{compiled: compiled}
	l.count(compiled, map[*jsonschema.Schema]bool{})
	return l
}

func (l *limited) validate(v any) (err error) {
	l.left = maxSteps
	defer func() {
		if l.left < 0 {
			_ = recover() // a panic is the only way to stop the validator
			err = &InvalidError{Problems: []Problem{{Message: "takes too many steps to compare with its schema, because its $ref lead to each other; send a smaller value"}}}
		}
	}()
	return l.compiled.Validate(v)
}

func (l *limited) step() {
	if l.left--; l.left < 0 {
		panic("too many steps")
	}
}

// count makes every part that a schema refers to count its steps. It uses the format keyword, which is
// checked before the parts.
func (l *limited) count(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	format := jsonschema.Format{Validate: func(any) error { l.step(); return nil }}
	if own := s.Format; own != nil {
		format = jsonschema.Format{Name: own.Name, Validate: func(v any) error { l.step(); return own.Validate(v) }}
	}
	s.Format = &format
	for _, one := range []any{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.AdditionalProperties, s.UnevaluatedProperties,
		s.Contains, s.Items, s.AdditionalItems, s.Items2020, s.UnevaluatedItems, s.ContentSchema, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		l.countAny(one, seen)
	}
	if s.DynamicRef != nil {
		l.count(s.DynamicRef.Ref, seen)
	}
	for _, one := range s.Properties {
		l.count(one, seen)
	}
	for _, one := range s.PatternProperties {
		l.count(one, seen)
	}
	for _, one := range s.DependentSchemas {
		l.count(one, seen)
	}
	for _, one := range s.Dependencies {
		l.countAny(one, seen)
	}
}

func (l *limited) countAny(v any, seen map[*jsonschema.Schema]bool) {
	switch v := v.(type) {
	case *jsonschema.Schema:
		l.count(v, seen)
	case []*jsonschema.Schema:
		for _, one := range v {
			l.count(one, seen)
		}
	}
}

// pool returns a pool of validators made by compile.
func pool(compile func() (*jsonschema.Schema, error)) *sync.Pool {
	return &sync.Pool{New: func() any {
		compiled, err := compile()
		if err != nil {
			return err
		}
		return limit(compiled)
	}}
}

func validateLimited(from *sync.Pool, v any) error {
	switch l := from.Get().(type) {
	case *limited:
		defer from.Put(l)
		return l.validate(v)
	case error:
		return l
	}
	return nil
}
