package service

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/busbar-mcp/busbar/libs/schema"
)

// A field's tag schema adds the constraints that its type cannot express, in the keywords of JSON
// Schema:
//
//	Quantity int      `json:"quantity" schema:"minimum=1,maximum=100,default=1"`
//	Reason   string   `json:"reason" schema:"enum=broken|wrong|late"`
//	Colours  []string `json:"colours" schema:"pattern=^[a-z]{3,9}$,maxItems=5"`
//
// A comma with a word and = after it begins the next keyword. enum and examples have | between
// values. For a list, minItems, maxItems, uniqueItems, default, examples and title describe the
// list; all other keywords describe its elements.
var keywords = map[string]func(s *jsonschema.Schema, value string) error{
	"title":  func(s *jsonschema.Schema, v string) error { s.Title = v; return nil },
	"format": func(s *jsonschema.Schema, v string) error { s.Format = v; return of(s, "string") },
	"pattern": func(s *jsonschema.Schema, v string) error {
		if _, err := regexp.Compile(v); err != nil {
			return fmt.Errorf("not a regular expression of Go, which has neither look-arounds nor back references: %w", err)
		}
		s.Pattern = v
		return of(s, "string")
	},
	"minLength":        count("string", func(s *jsonschema.Schema) **int { return &s.MinLength }),
	"maxLength":        count("string", func(s *jsonschema.Schema) **int { return &s.MaxLength }),
	"minItems":         count("array", func(s *jsonschema.Schema) **int { return &s.MinItems }),
	"maxItems":         count("array", func(s *jsonschema.Schema) **int { return &s.MaxItems }),
	"minimum":          number(func(s *jsonschema.Schema) **float64 { return &s.Minimum }),
	"maximum":          number(func(s *jsonschema.Schema) **float64 { return &s.Maximum }),
	"exclusiveMinimum": number(func(s *jsonschema.Schema) **float64 { return &s.ExclusiveMinimum }),
	"exclusiveMaximum": number(func(s *jsonschema.Schema) **float64 { return &s.ExclusiveMaximum }),
	"multipleOf":       number(func(s *jsonschema.Schema) **float64 { return &s.MultipleOf }),
	"uniqueItems": func(s *jsonschema.Schema, v string) (err error) {
		s.UniqueItems, err = strconv.ParseBool(v)
		return errors.Join(err, of(s, "array"))
	},
	"default": func(s *jsonschema.Schema, v string) (err error) {
		s.Default, err = literal(s, v)
		return err
	},
	"enum": func(s *jsonschema.Schema, v string) (err error) {
		if s.Enum, err = literals(s, v); slices.Contains(s.Types, "null") {
			s.Enum = append(s.Enum, nil)
		}
		return err
	},
	"examples": func(s *jsonschema.Schema, v string) (err error) {
		s.Examples, err = literals(s, v)
		return err
	},
}

// ofList are the keywords that describe a list itself.
var ofList = []string{"title", "minItems", "maxItems", "uniqueItems", "default", "examples"}

// keyword matches the beginning of a keyword in a tag.
var keyword = regexp.MustCompile(`(?:^|,)([A-Za-z]+)=`)

// constrain adds the keywords of a tag to the schema of its field.
func constrain(s *jsonschema.Schema, tag string) error {
	found := keyword.FindAllStringSubmatchIndex(tag, -1)
	if len(found) == 0 || found[0][0] != 0 {
		return fmt.Errorf("the tag schema is keyword=value,…: %q", tag)
	}
	for i, at := range found {
		name, end := tag[at[2]:at[3]], len(tag)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		set := keywords[name]
		if set == nil {
			return fmt.Errorf("the tag schema has no %s: there are %s", name, strings.Join(slices.Sorted(maps.Keys(keywords)), ", "))
		}
		to := s
		if typeOf(s) == "array" && s.Items != nil && !slices.Contains(ofList, name) {
			to = s.Items
		}
		if err := set(to, tag[at[1]:end]); err != nil {
			return fmt.Errorf("%s=%s: %w", name, tag[at[1]:end], err)
		}
	}
	return consistent(s)
}

// consistent requires that some values satisfy a schema, and that its enum, default and examples
// do. Whether the schema is valid is checked when the tool's whole schema is compiled, because each
// compilation takes 20 us or more.
func consistent(s *jsonschema.Schema) error {
	if err := cmp.Or(ordered("minimum", s.Minimum, "maximum", s.Maximum), ordered("minLength", s.MinLength, "maxLength", s.MaxLength), ordered("minItems", s.MinItems, "maxItems", s.MaxItems)); err != nil {
		return err
	}
	if len(s.Enum)+len(s.Default)+len(s.Examples) > 0 {
		if err := has(s); err != nil {
			return err
		}
	}
	if s.Items != nil {
		return consistent(s.Items)
	}
	return nil
}

// has requires that the values that a schema names satisfy it.
func has(s *jsonschema.Schema) error {
	raw, err := plain(s)
	if err != nil {
		return err
	}
	compiled, err := schema.Compile(raw)
	if err != nil {
		return err
	}
	for _, v := range s.Enum {
		if v, ok := v.(stdjson.RawMessage); ok {
			if err := compiled.Validate(v); err != nil {
				return fmt.Errorf("a value of the enum, %s: %w", v, err)
			}
		}
	}
	if s.Default != nil {
		if err := compiled.Validate(s.Default); err != nil {
			return fmt.Errorf("the default: %w", err)
		}
	}
	for _, e := range s.Examples {
		if err := compiled.Validate(e.(stdjson.RawMessage)); err != nil {
			return fmt.Errorf("an example: %w", err)
		}
	}
	return nil
}

// ordered checks that the lower of two bounds is not above the upper one.
func ordered[T int | float64](low string, from *T, high string, to *T) error {
	if from != nil && to != nil && *from > *to {
		return fmt.Errorf("%s is above %s: no value fits", low, high)
	}
	return nil
}

// typeOf is the type of a schema other than null; empty for none.
func typeOf(s *jsonschema.Schema) string {
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	return s.Type
}

// of requires a type.
func of(s *jsonschema.Schema, want string) error {
	if got := typeOf(s); got != want {
		return fmt.Errorf("the field is of type %s, not %s", got, want)
	}
	return nil
}

func count(want string, field func(*jsonschema.Schema) **int) func(*jsonschema.Schema, string) error {
	return func(s *jsonschema.Schema, value string) error {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return errors.New("not a whole number from 0 up")
		}
		*field(s) = new(int(n))
		return of(s, want)
	}
}

func number(field func(*jsonschema.Schema) **float64) func(*jsonschema.Schema, string) error {
	return func(s *jsonschema.Schema, value string) error {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !jsontext.Value(value).IsValid() {
			return errors.New("not a number")
		}
		*field(s) = &n
		if typeOf(s) == "integer" {
			return nil
		}
		return of(s, "number")
	}
}

// literal is a value of a schema's type: a string without quotes, everything else as
// JSON.
func literal(s *jsonschema.Schema, value string) (stdjson.RawMessage, error) {
	if typeOf(s) == "string" {
		return jsontext.AppendQuote(nil, value)
	}
	if v := jsontext.Value(value); !v.IsValid() {
		return nil, errors.New("it is no JSON")
	}
	return stdjson.RawMessage(value), nil
}

func literals(s *jsonschema.Schema, values string) (all []any, err error) {
	for v := range strings.SplitSeq(values, "|") {
		one, err := literal(s, v)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
