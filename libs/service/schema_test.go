package service_test

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service"
)

type (
	// ownJSON and ownText marshal themselves.
	ownJSON struct{ hidden int }
	ownText struct{ hidden int }
	named   []byte
	base    struct {
		ID int `json:"id"`
	}
	derived struct {
		base
		Name string `json:"name"`
	}
	failure struct {
		Code int `json:"code"`
	}
	one[T any] struct {
		V T `json:"v"`
	}
	everything struct {
		Bytes    []byte              `json:"bytes"`
		Array    [2]int              `json:"array"`
		Nested   [][]string          `json:"nested"`
		Maps     []map[string][]byte `json:"maps"`
		Pointer  *receipt            `json:"pointer"`
		Optional string              `json:"optional,omitempty"`
		Struct   struct {
			List []int `json:"list"`
		} `json:"struct"`
		Raw jsontext.Value `json:"raw"`
	}
	options struct {
		N    int64   `json:"n,string"`
		P    *uint32 `json:"p,string"`
		F    float64 `json:"f,string,omitzero"`
		Skip int     `json:"-"`
		Zero any     `json:"zero,omitzero"`
	}
)

func (o ownJSON) MarshalJSON() ([]byte, error)  { return fmt.Appendf(nil, `{"n":%d}`, o.hidden), nil }
func (o *ownText) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "n%d", o.hidden), nil }
func (f *failure) Error() string                { return "failed" }

// returns adds a tool that returns a value in a field of type T.
func returns[T any](value T) func(s *service.Service, name string) {
	return func(s *service.Service, name string) {
		service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, []byte) (one[T], error) { return one[T]{value}, nil })
	}
}

// TestB1InferredSchemas: the schema inferred for any type of field is an object, as clients need
// it, and the field's JSON satisfies it.
func TestB1InferredSchemas(t *testing.T) {
	t.Parallel()
	seven, text, raw := 7, "x", stdjson.RawMessage(`[1]`)
	var v any = 7
	cases := map[string]struct {
		add  func(s *service.Service, name string)
		want string // the schema of the field
	}{
		"any":              {returns[any](map[string]any{"a": []any{1, "x", nil}}), `{}`},
		"nil any":          {returns[any](nil), `{}`},
		"error":            {returns(errors.New("broken")), `{}`},
		"nil error":        {returns[error](nil), `{}`},
		"error with more":  {returns[error](&failure{7}), `{}`},
		"own error type":   {returns(&failure{7}), ""},
		"jsontext.Value":   {returns(jsontext.Value(`{"a":1}`)), `{}`},
		"json.RawMessage":  {returns(stdjson.RawMessage(`{"a":1}`)), `{}`},
		"*json.RawMessage": {returns(&raw), `{}`},
		"RawMessages":      {returns([]stdjson.RawMessage{[]byte(`1`), []byte(`"x"`)}), `{"type":"array","items":{}}`},
		"time":             {returns(time.Unix(1, 2).UTC()), `{"type":"string","format":"date-time"}`},
		"pointer to time":  {returns[*time.Time](nil), `{"type":["null","string"],"format":"date-time"}`},
		"duration":         {returns(3 * time.Second), `{"type":"integer"}`},
		"bytes":            {returns([]byte{0, 255}), `{"type":"string","contentEncoding":"base64"}`},
		"nil bytes":        {returns[[]byte](nil), ""},
		"named bytes":      {returns(named{1}), ""},
		"array of bytes":   {returns([3]byte{1, 2, 3}), ""},
		"slice":            {returns([]any{1, nil}), `{"type":"array","items":{}}`},
		"nil slice":        {returns[[]int](nil), `{"type":"array","items":{"type":"integer"}}`},
		"map":              {returns(map[string]any{"a": 1}), ""},
		"nil map":          {returns[map[string]int](nil), ""},
		"map of errors":    {returns(map[string]error{"a": errors.New("b")}), ""},
		"pointer":          {returns(&seven), `{"type":["null","integer"]}`},
		"nil pointer":      {returns[*derived](nil), ""},
		"pointer to any":   {returns(&v), `{}`},
		"pointer to slice": {returns[*[]int](nil), ""},
		"embedded":         {returns(derived{base{1}, "n"}), ""},
		"string option":    {returns(options{N: 1 << 60}), ""},
		"own JSON":         {returns(ownJSON{7}), `{}`},
		"own text":         {returns(ownText{7}), `{"type":"string"}`},
		"big number":       {returns(big.NewInt(7)), `{}`},
		"URL":              {returns(url.URL{Scheme: "x", Host: "y"}), ""},
		"address":          {returns(netip.MustParseAddr("::1")), `{"type":"string"}`},
		"level":            {returns(slog.LevelInfo), `{"type":"string"}`},
		"small":            {returns(uint8(255)), ""},
		"string pointer":   {returns([]*string{nil, &text}), ""},
		"nothing of all":   {returns(everything{Raw: jsontext.Value(`{}`)}), ""},
		"all of it":        {returns(everything{Bytes: []byte{1, 2}, Nested: [][]string{nil, {"a"}}, Maps: []map[string][]byte{{"a": {1}}}, Pointer: &receipt{}, Raw: jsontext.Value(`[1]`)}), ""},
	}
	svc := quiet(t, "svc")
	tools := map[string]string{}
	for name, c := range cases {
		tool := fmt.Sprintf("t%02d", len(tools))
		tools[tool] = name
		c.add(svc, tool)
	}
	client := run(t, svc)
	all := client.catalogue("all are announced", func(c *busv1.Catalogue) bool { return len(c.Tools) == len(cases) }).Tools
	for _, wire := range all {
		name := tools[wire.Name]
		t.Run(name, func(t *testing.T) {
			var shown struct {
				OutputSchema jsontext.Value `json:"outputSchema"`
			}
			var got struct {
				StructuredContent jsontext.Value `json:"structuredContent"`
			}
			if err := errors.Join(json.Unmarshal(wire.Json, &shown), json.Unmarshal([]byte(client.result(tool(wire.Name, `{}`))), &got)); err != nil {
				t.Fatal(err)
			}
			raw, value := shown.OutputSchema, got.StructuredContent
			if plain, changed, err := schema.Plain(raw); err != nil || len(changed) > 0 {
				t.Errorf("not plain: %s, %v", plain, err)
			}
			compiled, err := schema.Compile(raw)
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(value); err != nil {
				t.Errorf("%v\nresult %s\nschema %s", err, value, raw)
			}
			var s struct {
				Properties map[string]jsontext.Value `json:"properties"`
			}
			if err := json.Unmarshal(raw, &s); err != nil || s.Properties["v"].Kind() != '{' {
				t.Fatalf("%s %v", raw, err)
			}
			if want := cases[name].want; want != "" {
				same(t, "schema", string(s.Properties["v"]), want)
			}
			if strings.HasPrefix(name, "error") && strings.Contains(string(value), `{}`) {
				t.Errorf("an error says nothing: %s", value)
			}
		})
	}
}
