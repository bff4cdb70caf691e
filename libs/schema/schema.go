// Package schema compiles the JSON Schemas of tools and validates values against them. It
// never fetches anything, and it limits the cost of a schema. Start at CompileInput and
// Schema.Validate.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Bounds of one schema.
const (
	//limit:schema a schema
	maxBytes = 256 << 10
	// maxNumber is the largest number of characters of a number, in schemas and values. An
	// exponent has at most three digits: validation computes exactly, and 1e999999 is short to
	// write but expensive to compute with.
	maxNumber = 1000
)

// Schema is a valid JSON Schema of draft 4, 6, 7, 2019-09 or 2020-12 (the default).
type Schema struct {
	// compiled compiles a sound schema on first use: most schemas of a list of tools are
	// never used.
	compiled func() (*jsonschema.Schema, error)
	// limited holds the validators of a schema with references; nil without references.
	limited *sync.Pool
	headers []HeaderParam
}

// Headers returns the parameters that clients must mirror into Mcp-Param
// headers.
func (s *Schema) Headers() []HeaderParam { return s.headers }

// Has reports whether the schema's top level describes a property.
func (s *Schema) Has(property string) bool {
	compiled, err := s.compiled()
	return err == nil && compiled.Properties[property] != nil
}

// Compile checks and compiles a schema. A $ref must stay inside it.
func Compile(raw []byte) (*Schema, error) {
	return once(raw, false, func(raw []byte) (*Schema, error) {
		s, _, err := compile(raw)
		return s, err
	})
}

// compile also returns the decoded schema.
func compile(raw []byte) (*Schema, map[string]any, error) {
	if len(raw) > maxBytes {
		return nil, nil, fmt.Errorf("schema is %d bytes; the limit is %d", len(raw), maxBytes)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("not JSON: %w", err)
	}
	root, ok := doc.(map[string]any)
	if !ok {
		return nil, nil, errors.New("a schema must be a JSON object")
	}
	if where, found := hugeNumber(doc); found {
		return nil, nil, fmt.Errorf("%s: a number is longer than %d characters or its exponent than 3 digits", where, maxNumber)
	}
	m, err := measure(doc)
	if err != nil {
		return nil, nil, err
	}
	here := trusted
	if !sound(root) {
		here = judged
	}
	raw = bytes.Clone(raw) // the caller may change its bytes; a copy needs less memory than doc
	compile := func() (*jsonschema.Schema, error) {
		doc, err := decode(raw)
		if err != nil {
			return nil, err
		}
		return validator(here, doc)
	}
	s := &Schema{compiled: sync.OnceValues(compile)}
	if m.refers {
		s.limited = pool(compile)
	}
	if here == judged {
		_, err = s.compiled()
	}
	return s, root, err
}

// Locations of schemas for the compiler. It validates every schema against its metaschema, which is
// half of its work, except the schemas of one host.
const (
	judged  = "urn:busbar:schema"
	trusted = "https://json-schema.org/busbar"
)

// validator compiles a decoded schema.
func validator(here string, doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	return c.Compile(here)
}

// CompileInput is Compile for a tool's input. The schema must describe an object, and its
// x-mcp-header annotations must be valid.
func CompileInput(raw []byte) (*Schema, error) { return once(raw, true, compileInput) }

func compileInput(raw []byte) (*Schema, error) {
	s, root, err := compile(raw)
	if err != nil {
		return nil, err
	}
	if root["type"] != "object" {
		return nil, errors.New(`the schema of arguments must have "type": "object"`)
	}
	s.headers, err = headerParams(root)
	return s, err
}

// noLoader refuses every $ref that leaves the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s is not followed; put it under $defs", url)
}

// Problem is one violation of a schema by a value.
type Problem struct {
	// Path is a JSON Pointer into the value; empty for the value itself.
	Path string
	// Message says what is wrong, in English.
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// InvalidError lists the problems of one value, outermost first.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	text := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		text[i] = p.String()
	}
	return strings.Join(text, "; ")
}

// maxProblems keeps an error readable.
const maxProblems = 5

// Validate checks a JSON value, which must be well-formed. Numbers keep their
// precision. The error is an *InvalidError.
func (s *Schema) Validate(raw []byte) error {
	v, err := decode(raw)
	if err != nil {
		return &InvalidError{Problems: []Problem{{Message: "not JSON"}}}
	}
	if where, found := hugeNumber(v); found {
		return &InvalidError{Problems: []Problem{{Path: where, Message: "the number is too large; send it as a string"}}}
	}
	return s.validateValue(v)
}

func (s *Schema) validateValue(v any) error {
	err := s.compare(v)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	out := &InvalidError{}
	collect(invalid, out)
	return out
}

func (s *Schema) compare(v any) error {
	if s.limited != nil {
		return validateLimited(s.limited, v)
	}
	compiled, err := s.compiled()
	if err != nil {
		return err
	}
	return compiled.Validate(v)
}

var english = message.NewPrinter(language.English)

// collect keeps the leaves: they name the place and the rule. A missing or unknown parameter is itself
// the place. The validator visits members in no fixed order, so of many problems the first ones by
// place are kept, in that order.
func collect(e *jsonschema.ValidationError, out *InvalidError) {
	at := ""
	for _, token := range e.InstanceLocation {
		at += pointer(token)
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			out.add(at+pointer(name), func() string { return "is required" })
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out.add(at+pointer(name), func() string { return "is not a known parameter" })
		}
	default:
		if len(e.Causes) == 0 {
			out.add(at, func() string { return e.ErrorKind.LocalizedString(english) })
		}
	}
	for _, c := range e.Causes {
		collect(c, out)
	}
}

func (e *InvalidError) add(path string, message func() string) {
	at, _ := slices.BinarySearchFunc(e.Problems, path, func(p Problem, path string) int {
		if p.Path <= path { // keep the order of problems at the same place
			return -1
		}
		return 1
	})
	if at == maxProblems {
		return
	}
	e.Problems = slices.Insert(e.Problems, at, Problem{Path: path, Message: message()})
	e.Problems = e.Problems[:min(len(e.Problems), maxProblems)]
}
