package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// HeaderParam is a parameter that x-mcp-header mirrors into an HTTP header
// (2026-07-28, streamable-http, Custom Headers from Tool Parameters).
type HeaderParam struct {
	// Name follows "Mcp-Param-" in the header's name.
	Name string
	// Path leads from the arguments to the parameter.
	Path []string
	// Type is "string", "integer" or "boolean".
	Type string
}

const annotation = "x-mcp-header"

// headerParams finds the annotations of an input schema. They are allowed only on a
// primitive property that is reached through properties alone.
func headerParams(root map[string]any) ([]HeaderParam, error) {
	var found []HeaderParam
	if err := walkHeaders(root, nil, true, &found); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, p := range found {
		if low := strings.ToLower(p.Name); names[low] {
			return nil, fmt.Errorf("%s %q appears twice", annotation, p.Name)
		} else {
			names[low] = true
		}
	}
	return found, nil
}

// walkHeaders visits a schema. reachable is set if only properties lead to it from the
// root.
func walkHeaders(s map[string]any, path []string, reachable bool, found *[]HeaderParam) error {
	if raw, has := s[annotation]; has {
		name, ok := raw.(string)
		typ, _ := s["type"].(string)
		switch {
		case !ok || !isToken(name):
			return fmt.Errorf("%s at %s must be a header name", annotation, strings.Join(path, "."))
		case !reachable || len(path) == 0:
			return fmt.Errorf("%s %q must be on a property reached through properties alone", annotation, name)
		case typ != "string" && typ != "integer" && typ != "boolean":
			return fmt.Errorf("%s %q must be on a string, integer or boolean", annotation, name)
		}
		*found = append(*found, HeaderParam{Name: name, Path: slices.Clone(path), Type: typ})
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		child := s[key]
		if props, ok := child.(map[string]any); ok && key == "properties" {
			for _, name := range slices.Sorted(maps.Keys(props)) {
				if sub, ok := props[name].(map[string]any); ok {
					if err := walkHeaders(sub, append(path, name), reachable, found); err != nil {
						return err
					}
				}
			}
			continue
		}
		if key == "const" || key == "enum" || key == "default" || key == "examples" {
			continue // values, not schemas
		}
		if err := walkElsewhere(child, path, found); err != nil {
			return err
		}
	}
	return nil
}

func walkElsewhere(v any, path []string, found *[]HeaderParam) error {
	switch v := v.(type) {
	case map[string]any:
		return walkHeaders(v, path, false, found)
	case []any:
		for _, item := range v {
			if err := walkElsewhere(item, path, found); err != nil {
				return err
			}
		}
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// Match checks that a header agrees with the arguments. present is set if the request has
// the header; value is its decoded text.
func (p HeaderParam) Match(arguments []byte, present bool, value string) error {
	raw, err := p.find(arguments)
	switch {
	case err != nil:
		return err
	case raw == nil && present:
		return errors.New("the arguments have no such parameter")
	case raw == nil:
		return nil
	case !present:
		return errors.New("the header is missing")
	}
	same := false
	switch raw.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		same = err == nil && string(text) == value
	case '0':
		same = isDecimal(value) && sameNumber(string(raw), value)
	default:
		same = string(raw) == value
	}
	if !same {
		return errors.New("the header differs from the arguments")
	}
	return nil
}

// isDecimal reports whether a header holds a number in JSON form, without exponent.
// big.Rat accepts more, such as 0x2A, which an intermediary that routes by the header would
// not understand.
func isDecimal(s string) bool {
	v := jsontext.Value(s)
	return len(s) <= 40 && v.Kind() == '0' && v.IsValid() && !strings.ContainsAny(s, "eE \t\r\n")
}

// find returns the parameter's value, or nil if it is absent or null.
func (p HeaderParam) find(arguments []byte) (jsontext.Value, error) {
	v := jsontext.Value(arguments)
	for _, name := range p.Path {
		if len(v) == 0 || v.Kind() != '{' {
			return nil, nil
		}
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil {
			return nil, err
		}
		v = members[name]
	}
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	return v, nil
}
