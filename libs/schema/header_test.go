package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/schema"
)

// 2026-07-28, streamable-http, Custom Headers from Tool Parameters.
func TestHeaderAnnotations(t *testing.T) {
	t.Parallel()
	property := func(p string) string { return `{"type":"object","properties":{"p":` + p + `}}` }
	for name, c := range map[string]struct {
		schema string
		want   []schema.HeaderParam
	}{
		"none":    {property(`{"type":"string"}`), nil},
		"string":  {property(`{"type":"string","x-mcp-header":"Region"}`), []schema.HeaderParam{{Name: "Region", Path: []string{"p"}, Type: "string"}}},
		"integer": {property(`{"type":"integer","x-mcp-header":"N"}`), []schema.HeaderParam{{Name: "N", Path: []string{"p"}, Type: "integer"}}},
		"boolean": {property(`{"type":"boolean","x-mcp-header":"B"}`), []schema.HeaderParam{{Name: "B", Path: []string{"p"}, Type: "boolean"}}},
		"every token character": {property("{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~09azAZ\"}"),
			[]schema.HeaderParam{{Name: "!#$%&'*+-.^_`|~09azAZ", Path: []string{"p"}, Type: "string"}}},
		"nested properties": {property(`{"type":"object","properties":{"q":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Deep"}}}}}`),
			[]schema.HeaderParam{{Name: "Deep", Path: []string{"p", "q", "r"}, Type: "string"}}},
		"several, by name": {`{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B"},"a":{"type":"string","x-mcp-header":"A"}}}`,
			[]schema.HeaderParam{{Name: "A", Path: []string{"a"}, Type: "string"}, {Name: "B", Path: []string{"b"}, Type: "string"}}},
		"siblings in one object": {property(`{"type":"object","properties":{"q":{"type":"string","x-mcp-header":"Q"},"r":{"type":"string","x-mcp-header":"R"}}}`),
			[]schema.HeaderParam{{Name: "Q", Path: []string{"p", "q"}, Type: "string"}, {Name: "R", Path: []string{"p", "r"}, Type: "string"}}},
		"property of that name":      {`{"type":"object","properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		"property named properties":  {`{"type":"object","properties":{"properties":{"type":"string","x-mcp-header":"P"}}}`, []schema.HeaderParam{{Name: "P", Path: []string{"properties"}, Type: "string"}}},
		"in values, not in schemas":  {property(`{"type":"object","default":{"x-mcp-header":"D"},"enum":[{"x-mcp-header":"E"}],"const":{"x-mcp-header":7},"examples":[{"x-mcp-header":7}]}`), nil},
		"beside alternatives":        {property(`{"type":"string","x-mcp-header":"P","anyOf":[{"minLength":1},{"pattern":"x"}]}`), []schema.HeaderParam{{Name: "P", Path: []string{"p"}, Type: "string"}}},
		"safe bounds on the integer": {property(`{"type":"integer","minimum":0,"maximum":9,"x-mcp-header":"P"}`), []schema.HeaderParam{{Name: "P", Path: []string{"p"}, Type: "integer"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := schema.CompileInput([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			same := func(a, b schema.HeaderParam) bool {
				return a.Name == b.Name && a.Type == b.Type && slices.Equal(a.Path, b.Path)
			}
			if got := s.Headers(); !slices.EqualFunc(got, c.want, same) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestHeaderAnnotationsRefused(t *testing.T) {
	t.Parallel()
	property := func(p string) string { return `{"type":"object","properties":{"p":` + p + `}}` }
	on := `{"type":"string","x-mcp-header":"P"}`
	for name, raw := range map[string]string{
		"empty":              property(`{"type":"string","x-mcp-header":""}`),
		"space":              property(`{"type":"string","x-mcp-header":"a b"}`),
		"colon":              property(`{"type":"string","x-mcp-header":"a:b"}`),
		"CRLF":               property(`{"type":"string","x-mcp-header":"a\r\nSet-Cookie: x"}`),
		"control character":  property(`{"type":"string","x-mcp-header":"a\u0001"}`),
		"non-ASCII":          property(`{"type":"string","x-mcp-header":"Größe"}`),
		"slash":              property(`{"type":"string","x-mcp-header":"a/b"}`),
		"number":             property(`{"type":"string","x-mcp-header":7}`),
		"null":               property(`{"type":"string","x-mcp-header":null}`),
		"type number":        property(`{"type":"number","x-mcp-header":"P"}`),
		"type array":         property(`{"type":"array","x-mcp-header":"P"}`),
		"type object":        property(`{"type":"object","x-mcp-header":"P"}`),
		"two types":          property(`{"type":["string","null"],"x-mcp-header":"P"}`),
		"no type":            property(`{"x-mcp-header":"P"}`),
		"on the root":        `{"type":"object","x-mcp-header":"P"}`,
		"twice":              `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"P"},"b":{"type":"string","x-mcp-header":"P"}}}`,
		"twice, other case":  `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"rEGION"}}}`,
		"in items":           property(`{"type":"array","items":` + on + `}`),
		"in prefixItems":     property(`{"type":"array","prefixItems":[` + on + `]}`),
		"in anyOf":           property(`{"anyOf":[` + on + `]}`),
		"in oneOf":           property(`{"oneOf":[{"type":"object","properties":{"q":` + on + `}}]}`),
		"in allOf":           `{"type":"object","allOf":[{"properties":{"p":` + on + `}}]}`,
		"in not":             property(`{"not":` + on + `}`),
		"in if":              `{"type":"object","if":{"properties":{"p":` + on + `}}}`,
		"in then":            `{"type":"object","then":{"properties":{"p":` + on + `}}}`,
		"in $defs":           `{"type":"object","$defs":{"d":` + on + `},"properties":{"p":{"$ref":"#/$defs/d"}}}`,
		"in patternProperty": `{"type":"object","patternProperties":{"^x":` + on + `}}`,
		"in additional":      `{"type":"object","additionalProperties":` + on + `}`,
		"in dependent":       `{"type":"object","dependentSchemas":{"a":{"properties":{"p":` + on + `}}}}`,
		"not an object":      `{"type":"string"}`,
		"no type at all":     `{"properties":{}}`,
		"type list":          `{"type":["object"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, err := schema.CompileInput([]byte(raw)); err == nil {
				t.Errorf("accepted with %+v", s.Headers())
			}
		})
	}
}

func TestHeaderMatch(t *testing.T) {
	t.Parallel()
	const absent = "\x00absent"
	param := func(typ string, path ...string) schema.HeaderParam {
		return schema.HeaderParam{Name: "P", Path: path, Type: typ}
	}
	text, number, flag, deep := param("string", "p"), param("integer", "p"), param("boolean", "p"), param("string", "a", "b")
	for name, c := range map[string]struct {
		param  schema.HeaderParam
		args   string
		header string
		ok     bool
	}{
		"same text":                  {text, `{"p":"us-west1"}`, "us-west1", true},
		"other text":                 {text, `{"p":"us-west1"}`, "us-east1", false},
		"other case":                 {text, `{"p":"us-west1"}`, "US-WEST1", false},
		"escaped in the arguments":   {text, `{"p":"\u0075s\/w\n"}`, "us/w\n", true},
		"non-ASCII":                  {text, `{"p":"Hello, 世界"}`, "Hello, 世界", true},
		"empty text":                 {text, `{"p":""}`, "", true},
		"empty text, no header":      {text, `{"p":""}`, absent, false},
		"text that is a number":      {text, `{"p":"42"}`, "42", true},
		"text is not compared as 42": {text, `{"p":"42.0"}`, "42", false},
		"header missing":             {text, `{"p":"x"}`, absent, false},
		"null, no header":            {text, `{"p":null}`, absent, true},
		"null, header":               {text, `{"p":null}`, "null", false},
		"null, empty header":         {text, `{"p":null}`, "", false},
		"absent, no header":          {text, `{}`, absent, true},
		"absent, header":             {text, `{}`, "x", false},
		"no arguments, no header":    {text, ``, absent, true},
		"no arguments, header":       {text, ``, "x", false},
		"name in other case":         {text, `{"P":"x"}`, "x", false},
		"integer":                    {number, `{"p":42}`, "42", true},
		"42.0 in the header":         {number, `{"p":42}`, "42.0", true},
		"42.0 in the arguments":      {number, `{"p":42.0}`, "42", true},
		"4.2e1 in the arguments":     {number, `{"p":4.2e1}`, "42", true},
		"negative":                   {number, `{"p":-7}`, "-7", true},
		"zero":                       {number, `{"p":0}`, "0", true},
		"minus zero":                 {number, `{"p":-0}`, "0", true},
		"2^53-1":                     {number, `{"p":9007199254740991}`, "9007199254740991", true},
		"2^53+1 against 2^53":        {number, `{"p":9007199254740993}`, "9007199254740992", false},
		"another integer":            {number, `{"p":42}`, "43", false},
		"empty header":               {number, `{"p":0}`, "", false},
		"hexadecimal":                {number, `{"p":42}`, "0x2A", false},
		"binary":                     {number, `{"p":2}`, "0b10", false},
		"octal":                      {number, `{"p":8}`, "0o10", false},
		"leading zero":               {number, `{"p":42}`, "042", false},
		"plus sign":                  {number, `{"p":42}`, "+42", false},
		"underscore":                 {number, `{"p":42}`, "4_2", false},
		"fraction":                   {number, `{"p":42}`, "84/2", false},
		"exponent":                   {number, `{"p":100}`, "1e2", false},
		"inner space":                {number, `{"p":42}`, "4 2", false},
		"infinity":                   {number, `{"p":42}`, "Inf", false},
		"text for a number":          {number, `{"p":42}`, "forty-two", false},
		"huge exponent":              {number, `{"p":1e999999999}`, "1", false},
		"true":                       {flag, `{"p":true}`, "true", true},
		"false":                      {flag, `{"p":false}`, "false", true},
		"True":                       {flag, `{"p":true}`, "True", false},
		"1 for true":                 {flag, `{"p":true}`, "1", false},
		"false for true":             {flag, `{"p":true}`, "false", false},
		"nested":                     {deep, `{"a":{"b":"x"},"b":"y"}`, "x", true},
		"nested, other":              {deep, `{"a":{"b":"x"},"b":"y"}`, "y", false},
		"nested, absent":             {deep, `{"a":{}}`, absent, true},
		"nested, parent absent":      {deep, `{}`, absent, true},
		"nested, parent null":        {deep, `{"a":null}`, absent, true},
		"nested, parent a string":    {deep, `{"a":"b"}`, "b", false},
		"space in the arguments":     {deep, ` { "a" : { "b" : "x" } } `, "x", true},
		"malformed arguments":        {text, `{"p":`, "x", false},
		"duplicate in the arguments": {text, `{"p":"x","p":"y"}`, "y", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value := strings.TrimSuffix(c.header, absent)
			if err := c.param.Match([]byte(c.args), c.header != absent, value); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
