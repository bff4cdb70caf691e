package client

import (
	"maps"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMirror(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"x","inputSchema":{"type":"object","properties":{
		"s":{"type":"string","x-mcp-header":"S"},"i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"},
		"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"Deep-Er"}}}}}}`
	tool, err := decodeTool(jsontext.Value(definition))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, arguments string
		want            []string
	}{
		{"nothing", `{}`, nil},
		{"all", `{"s":"us-west1","i":42,"b":true,"deep":{"er":"x"}}`, []string{"Mcp-Param-B: true", "Mcp-Param-Deep-Er: x", "Mcp-Param-I: 42", "Mcp-Param-S: us-west1"}},
		{"null", `{"s":null,"deep":{"er":null}}`, nil},
		{"empty", `{"s":""}`, []string{"Mcp-Param-S: "}},
		{"not ASCII", `{"s":"Hello, 世界"}`, []string{"Mcp-Param-S: =?base64?SGVsbG8sIOS4lueVjA==?="}},
		{"spaces around", `{"s":" padded "}`, []string{"Mcp-Param-S: =?base64?IHBhZGRlZCA=?="}},
		{"line break", `{"s":"line1\nline2"}`, []string{"Mcp-Param-S: =?base64?bGluZTEKbGluZTI=?="}},
		{"looks encoded", `{"s":"=?base64?literal?="}`, []string{"Mcp-Param-S: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}},
		{"negative", `{"i":-7}`, []string{"Mcp-Param-I: -7"}},
		{"integer as fraction", `{"i":42.0}`, []string{"Mcp-Param-I: 42"}},
		{"integer as power", `{"i":1.5e3}`, []string{"Mcp-Param-I: 1500"}},
		{"not an integer", `{"i":1.5}`, []string{"Mcp-Param-I: 1.5"}},
		{"absurd", `{"i":1e999999999}`, []string{"Mcp-Param-I: 1e999999999"}},
		{"false", `{"b":false}`, []string{"Mcp-Param-B: false"}},
		{"other type", `{"s":["ż"]}`, []string{"Mcp-Param-S: =?base64?WyLFvCJd?="}},
		{"no object on the way", `{"deep":5}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := mirror(tool.mirrored, jsontext.Value(tt.arguments))
			var got []string
			for _, name := range slices.Sorted(maps.Keys(h)) {
				got = append(got, name+": "+h.Get(name))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	var tools []Tool
	for _, name := range []string{"extract_entities", "extract_keywords", "summarize", "detect_language", "Echo", "ls"} {
		tool, err := decodeTool(jsontext.Value(`{"name":"` + name + `","inputSchema":{"type":"object"}}`))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	tests := []struct {
		name, typed string
		want        []string
	}{
		{"letter missing", "extrct_entities", []string{"extract_entities"}},
		{"letters swapped", "sumamrize", []string{"summarize"}},
		{"other case", "echo", []string{"Echo"}},
		{"part", "language", []string{"detect_language"}},
		{"several, the likeliest first", "extract_keyword", []string{"extract_keywords"}},
		{"common part", "extract", []string{"extract_entities", "extract_keywords"}},
		{"short", "sl", []string{"ls"}},
		{"nothing like it", "weather", nil},
		{"empty", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := nearest(tt.typed, toolNames(tools)); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
