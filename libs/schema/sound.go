package schema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// sound reports whether a decoded schema is certainly valid: all its keywords are among those below,
// with values that draft 2020-12 allows. If it returns false, the schema may still be valid, for
// example in another draft. Compiling a schema takes ten times as long as reading it and making
// this check.
func sound(root map[string]any) bool {
	defs, _ := root["$defs"].(map[string]any)
	return judge{defs}.schema(root)
}

// judge checks one schema; defs are the $defs of its root.
type judge struct{ defs map[string]any }

func (j judge) schema(v any) bool {
	s, ok := v.(map[string]any)
	if !ok {
		_, ok = v.(bool)
		return ok
	}
	for name, value := range s {
		if !j.keyword(name, value) {
			return false
		}
	}
	return true
}

func (j judge) keyword(name string, value any) bool {
	switch name {
	case "type":
		types, ok := value.([]any)
		return isType(value) || ok && len(types) > 0 && distinct(types, isType)
	case "$ref":
		ref, ok := value.(string)
		to, there := strings.CutPrefix(ref, "#/$defs/")
		return ok && there && j.defs[to] != nil && isToken(to) && !strings.ContainsAny(to, "~%")
	case "properties", "$defs":
		named, ok := value.(map[string]any)
		for _, s := range named {
			ok = ok && j.schema(s)
		}
		return ok
	case "items", "additionalProperties", "unevaluatedProperties", "propertyNames", "not":
		return j.schema(value)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, ok := value.([]any)
		return ok && len(list) > 0 && !slices.ContainsFunc(list, func(s any) bool { return !j.schema(s) })
	case "required":
		names, ok := value.([]any)
		return ok && distinct(names, isText)
	case "enum", "examples":
		_, ok := value.([]any)
		return ok
	case "default", "const":
		return true
	case "title", "description", "$comment", "format", "contentEncoding", "contentMediaType":
		return isText(value)
	case "pattern":
		pattern, ok := value.(string)
		if !ok {
			return false
		}
		_, err := regexp.Compile(pattern)
		return err == nil
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		_, ok := value.(bool)
		return ok
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		_, ok := value.(json.Number)
		return ok
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		n, ok := value.(json.Number)
		return ok && len(n) < 10 && strings.Trim(string(n), "0123456789") == ""
	}
	return strings.HasPrefix(name, "x-")
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func isType(v any) bool {
	switch v {
	case "array", "boolean", "integer", "null", "number", "object", "string":
		return true
	}
	return false
}

// distinct reports whether all values satisfy is and differ from each other. For more than a few it
// returns false, and the caller takes the slow path, which avoids comparing each pair.
func distinct(values []any, is func(any) bool) bool {
	const few = 100
	if len(values) > few {
		return false
	}
	for i, v := range values {
		if !is(v) || slices.Contains(values[:i], v) {
			return false
		}
	}
	return true
}
