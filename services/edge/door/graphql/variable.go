package graphql

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/graph-gophers/graphql-go/ast"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// variable is a value in the form that the library accepts. Numbers that it would round
// stay as they were written, and fit only the scalar JSON.
func variable(v jsontext.Value) (any, error) {
	switch v.Kind() {
	case '0':
		if n, ok := integer(v); ok {
			return n, nil
		}
		return v, nil
	case '[':
		var list []jsontext.Value
		if err := json.Unmarshal(v, &list); err != nil {
			return nil, err
		}
		out := make([]any, len(list))
		for i, e := range list {
			var err error
			if out[i], err = variable(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case '{':
		var object map[string]jsontext.Value
		if err := json.Unmarshal(v, &object); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(object))
		for name, e := range object {
			var err error
			if out[name], err = variable(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var plain any
	err := json.Unmarshal(v, &plain)
	return plain, err
}

// integer reads a number that fits GraphQL's Int.
func integer(v jsontext.Value) (int32, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return int32(n), err == nil && n >= math.MinInt32 && n <= math.MaxInt32
}

// checkVariable refuses a value of another type than its variable is declared with: the
// library would take that for a defect. The library itself refuses missing values, and
// members that a type does not have.
func checkVariable(schema *ast.Schema, at, declared string, v jsontext.Value) error {
	declared = strings.TrimSuffix(declared, "!")
	if v == nil || v.Kind() == 'n' {
		return nil
	}
	if of, list := strings.CutPrefix(declared, "["); list {
		of = strings.TrimSuffix(of, "]")
		if v.Kind() != '[' {
			return checkVariable(schema, at, of, v)
		}
		var all []jsontext.Value
		if err := json.Unmarshal(v, &all); err != nil {
			return fault.From(err)
		}
		for i, e := range all {
			if err := checkVariable(schema, at+"["+strconv.Itoa(i)+"]", of, e); err != nil {
				return err
			}
		}
		return nil
	}
	kind, fits := v.Kind(), true
	switch declared {
	case "String":
		fits = kind == '"'
	case "ID":
		_, number := integer(v)
		fits = kind == '"' || number
	case "Int":
		_, fits = integer(v)
	case "Float":
		fits = kind == '0'
	case "Boolean":
		fits = kind == 't' || kind == 'f'
	}
	object, isObject := schema.Types[declared].(*ast.InputObject)
	if !fits || isObject && kind != '{' {
		return fault.New(fault.InvalidParams, "variable $%s must be of type %s", at, declared)
	}
	if !isObject {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v, &members); err != nil {
		return fault.From(err)
	}
	for _, f := range object.Values {
		if err := checkVariable(schema, at+"."+f.Name.Name, f.Type.String(), members[f.Name.Name]); err != nil {
			return err
		}
	}
	return nil
}
