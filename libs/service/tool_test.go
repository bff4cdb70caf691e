package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service"
)

type order struct {
	Item  string            `json:"item" jsonschema:"what to order"`
	Count int               `json:"count,omitzero" jsonschema:"how many"`
	Tags  []string          `json:"tags,omitempty"`
	Extra map[string]string `json:"extra,omitempty"`
	Lines []struct {
		Note *string `json:"note"`
	} `json:"lines,omitempty"`
}

type receipt struct {
	Total float64          `json:"total"`
	Items []string         `json:"items"`
	Index map[string]int   `json:"index"`
	Deep  map[string][]int `json:"deep"`
}

func TestTypedTool(t *testing.T) {
	t.Parallel()
	s := quiet(t, "shop", service.WithVersion("1.2.3"))
	service.AddTool(s, service.Tool{Name: "order", Title: "Order", Description: "Orders.", Idempotent: true, RequiresUserApproval: true, Timeout: 90 * time.Second},
		func(_ context.Context, _ *service.Call, in order) (receipt, error) {
			return receipt{Total: float64(in.Count) * 1.5, Items: in.Tags}, nil
		})
	c := run(t, s)
	same(t, "result", c.result(tool("order", `{"item":"x","count":3,"tags":["a","b"]}`)),
		`{"content":[{"type":"text","text":"{\"total\":4.5,\"items\":[\"a\",\"b\"],\"index\":{},\"deep\":{}}"}],"structuredContent":{"total":4.5,"items":["a","b"],"index":{},"deep":{}}}`)
	if got := c.result(tool("order", `{"item":"x"}`)); strings.Contains(got, "null") {
		t.Errorf("nil slices and maps become null: %s", got)
	}
	c.fails(tool("order", `{"item":7}`), fault.InvalidParams)
	c.fails(tool("order", `[]`), fault.InvalidParams)
	c.fails(tool("order", `{"item":"x","item":"y"}`), fault.InvalidParams)

	wire := c.catalogue("it is announced", func(c *busv1.Catalogue) bool { return len(c.Tools) == 1 }).Tools[0]
	if wire.TimeoutMs != 90_000 || !wire.Idempotent || wire.ReadOnly || !wire.RequiresUserApproval {
		t.Errorf("wire %v", wire)
	}
	var shown struct {
		Name, Title, Description string
		InputSchema              jsontext.Value `json:"inputSchema"`
		OutputSchema             jsontext.Value `json:"outputSchema"`
		Annotations              mcp.ToolAnnotations
	}
	if err := json.Unmarshal(wire.Json, &shown, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if shown.Name != "order" || shown.Title != "Order" || shown.Description != "Orders." || shown.Annotations.IdempotentHint == nil || shown.Annotations.ReadOnlyHint != nil {
		t.Errorf("shown %+v", shown)
	}
	same(t, "schema", string(wire.InputSchema), string(shown.InputSchema))

	in, err := schema.CompileInput(wire.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	for arguments, valid := range map[string]bool{
		`{"item":"x"}`: true, `{"item":"x","count":1,"tags":[],"extra":{},"lines":[{"note":"a"}]}`: true, `{"item":"x","lines":[{"note":null}]}`: true,
		`{}`: false, `{"count":1}`: false, `{"item":7}`: false, `{"item":"x","count":"1"}`: false, `{"item":"x","unknown":1}`: false,
		`{"item":"x","tags":null}`: false, `{"item":"x","extra":null}`: false, `{"Item":"x"}`: false,
	} {
		if err := in.Validate([]byte(arguments)); (err == nil) != valid {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	if !strings.Contains(string(wire.InputSchema), `"description":"what to order"`) {
		t.Errorf("the description is lost: %s", wire.InputSchema)
	}
	out, err := schema.Compile(shown.OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Validate([]byte(`{"total":1,"items":[],"index":{},"deep":{"a":[1]}}`)); err != nil {
		t.Errorf("the result fails its own schema: %v", err)
	}
	for _, raw := range []string{string(shown.OutputSchema), string(wire.InputSchema)} {
		if strings.Contains(strings.ReplaceAll(raw, `"note":{"type":["null","string"]}`, ""), `"null"`) {
			t.Errorf("arrays or maps may be null: %s", raw)
		}
	}
}

func TestToolResults(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	add := func(name string, f func(in []byte) (*service.Result, error)) {
		service.AddTool(s, service.Tool{Name: name}, func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) { return f(in) })
	}
	for name, f := range map[string]func(in []byte) (*service.Result, error){
		"raw": func(in []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text(string(in))}}, nil
		},
		"structured": func([]byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text("a"), mcp.Image([]byte{1}, "image/png")}, Structured: map[string]int{"b": 2, "a": 1}}, nil
		},
		"empty":   func([]byte) (*service.Result, error) { return &service.Result{}, nil },
		"marked":  func([]byte) (*service.Result, error) { return &service.Result{IsError: true}, nil },
		"nil":     func([]byte) (*service.Result, error) { return nil, nil },
		"failed":  func([]byte) (*service.Result, error) { return nil, service.Errorf("no %s today", "bread") },
		"wrapped": func([]byte) (*service.Result, error) { return nil, fmt.Errorf("secret: %w", service.Errorf("told")) },
		"foreign": func([]byte) (*service.Result, error) { return nil, errors.New("secret") },
		"fault":   func([]byte) (*service.Result, error) { return nil, fault.New(fault.Conflict, "taken") },
		"panic":   func([]byte) (*service.Result, error) { panic("secret") },
	} {
		add(name, f)
	}
	service.AddTool(s, service.Tool{Name: "string"}, func(context.Context, *service.Call, struct{}) (string, error) { return "a\"b", nil })
	service.AddTool(s, service.Tool{Name: "list"}, func(context.Context, *service.Call, struct{}) ([]int, error) { return nil, nil })
	service.AddTool(s, service.Tool{Name: "map"}, func(_ context.Context, _ *service.Call, in map[string]int) (int, error) { return len(in), nil })
	c := run(t, s)
	for name, want := range map[string]string{
		"raw":        `{"content":[{"type":"text","text":"{ \"n\":9007199254740993 }"}]}`,
		"structured": `{"content":[{"type":"text","text":"a"},{"type":"image","data":"AQ==","mimeType":"image/png"}],"structuredContent":{"a":1,"b":2}}`,
		"empty":      `{"content":[]}`,
		"marked":     `{"content":[],"isError":true}`,
		"failed":     `{"content":[{"type":"text","text":"no bread today"}],"isError":true}`,
		"wrapped":    `{"content":[{"type":"text","text":"told"}],"isError":true}`,
		"list":       `{"content":[{"type":"text","text":"[]"}],"structuredContent":[]}`,
		"string":     `{"content":[{"type":"text","text":"a\"b"}]}`,
	} {
		same(t, name, c.result(tool(name, `{ "n":9007199254740993 }`)), want)
	}
	same(t, "map", c.result(tool("map", `{"a":1,"b":2}`)), `{"content":[{"type":"text","text":"2"}],"structuredContent":2}`)
	same(t, "no arguments", c.result(tool("raw", ``)), `{"content":[{"type":"text","text":"{}"}]}`)
	frame, err := c.do(tool("failed", `{}`), nil)
	if err != nil || !frame.GetResult().GetIsError() {
		t.Errorf("a failure is not marked on the bus: %v, %v", frame, err)
	}
	for _, name := range []string{"foreign", "panic", "nil"} {
		if f := c.fails(tool(name, `{}`), fault.Internal); strings.Contains(f.Error(), "secret") || f.Executed != fault.Unknown {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := c.fails(tool("fault", `{}`), fault.Conflict); f.Message != "taken" {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"", "none", "RAW", "raw "} {
		if f := c.fails(tool(name, `{}`), fault.UnknownTool); f.Executed != fault.No {
			t.Errorf("%+v", f)
		}
	}
}

func TestSchemasAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	in := `{ "type" : "object", "properties":{"z":{"type":"string","x-mcp-header":"Z"},"a":{"const":1.50}}, "$defs" : {} }`
	out := `{"type":"object","properties":{"r":{"type":"string"}},"required":["r"]}`
	s := quiet(t, "svc")
	service.AddTool(s, service.Tool{Name: "t", InputSchema: []byte(in), OutputSchema: []byte(out)},
		func(context.Context, *service.Call, []byte) (*service.Result, error) { return &service.Result{}, nil })
	service.AddTool(s, service.Tool{Name: "u"},
		func(context.Context, *service.Call, []byte) (*service.Result, error) { return &service.Result{}, nil })
	tools := run(t, s).catalogue("they are announced", func(c *busv1.Catalogue) bool { return len(c.Tools) == 2 }).Tools
	same(t, "input schema", string(tools[0].InputSchema), in)
	same(t, "tool", string(tools[0].Json), `{"name":"t","inputSchema":{"type":"object","properties":{"z":{"type":"string","x-mcp-header":"Z"},"a":{"const":1.50}},"$defs":{}},"outputSchema":`+out+`}`)
	same(t, "tool without schemas", string(tools[1].Json), `{"name":"u","inputSchema":{"type":"object"}}`)
}
