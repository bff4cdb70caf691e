package client

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"regexp"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/go-json-experiment/json/jsontext"
)

// Tool is a tool the edge offers.
type Tool struct {
	mcp.Tool
	// Raw is the definition as received.
	Raw jsontext.Value
	// mirrored are the parameters that travel as headers too.
	mirrored []schema.HeaderParam
}

// decodeTool reads a definition. On error the tool carries its name, if it has
// one.
func decodeTool(raw jsontext.Value) (Tool, error) {
	t := Tool{Raw: raw}
	if err := decode(raw, &t.Tool); err != nil {
		var named struct {
			Name string `json:"name"`
		}
		_ = decode(raw, &named) // the first error is the one to tell
		t.Name = named.Name
		return t, err
	}
	if t.Name == "" {
		return t, fmt.Errorf("it has no name")
	}
	// Compiling is for the annotation only; a tool without it is the server's
	// business whatever its schema. An escape may hide the annotation.
	if bytes.Contains(t.InputSchema, []byte("x-mcp-header")) || bytes.Contains(t.InputSchema, []byte(`\u`)) {
		compiled, err := schema.CompileInput(t.InputSchema)
		if err != nil {
			return t, err
		}
		t.mirrored = compiled.Headers()
	}
	return t, nil
}

// mirror returns the Mcp-Param headers for the arguments: none for parameters
// that are absent or null.
func mirror(mirrored []schema.HeaderParam, arguments jsontext.Value) http.Header {
	h := http.Header{}
	for _, p := range mirrored {
		v := at(arguments, p.Path)
		switch v.Kind() {
		case 0, 'n':
			continue
		case '"':
			text, err := jsontext.AppendUnquote(nil, v)
			if err != nil {
				continue // not reached: the arguments were checked
			}
			h.Set(mcp.HeaderParamPrefix+p.Name, mcp.EncodeHeader(string(text)))
		case '0':
			h.Set(mcp.HeaderParamPrefix+p.Name, decimal(string(v)))
		default:
			h.Set(mcp.HeaderParamPrefix+p.Name, mcp.EncodeHeader(string(v)))
		}
	}
	return h
}

// at returns the value at a path of object members; nil if there is no such value.
func at(v jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		if v.Kind() != '{' {
			return nil
		}
		var members map[string]jsontext.Value
		if decode(v, &members) != nil {
			return nil
		}
		v = members[name]
	}
	return v
}

// expandable are numbers small enough to write without an exponent.
var expandable = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

// decimal writes an integer in plain decimal, as headers want it. Another
// value stays unchanged, and the server refuses it.
func decimal(number string) string {
	if !expandable.MatchString(number) {
		return number
	}
	if r, ok := new(big.Rat).SetString(number); ok && r.IsInt() {
		return r.Num().String()
	}
	return number
}
