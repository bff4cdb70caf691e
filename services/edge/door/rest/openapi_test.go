package rest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// Each tool has a path with its schemas, whose references are valid in the document.
func TestOpenAPIOfTools(t *testing.T) {
	t.Parallel()
	w := start(t)
	const tree = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"root":{"$ref":"#/$defs/node"},"default":{"$ref":"#/$defs/node"}},
		"$defs":{"node":{"type":"object","default":{"$ref":"#/left"},"properties":{"next":{"$ref":"#/$defs/node"},"all":{"$ref":"#"},"$ref":{"type":"string"}}}}}`
	service.AddTool(w.Svc.Service, service.Tool{Name: "tree", Title: "A tree", InputSchema: []byte(tree), OutputSchema: []byte(`{"type":"object","properties":{"n":{"type":"number"}}}`)},
		func(context.Context, *service.Call, []byte) (*service.Result, error) { return &service.Result{}, nil })
	var doc document
	read := func() document {
		var d document
		w.do(t, "GET", "/openapi.json", "", nil).read(t, &d)
		return d
	}
	bustest.Eventually(t, "the tool is described", func() bool { doc = read(); return doc.Paths["/tools/tree"] != nil })
	op := string(doc.Paths["/tools/tree"]["post"])
	for _, part := range []string{`"summary":"A tree"`, `"tags":["svc"]`, `"$ref":"#/components/schemas/tool.tree.input"`, `"$ref":"#/components/schemas/tool.tree.output"`, `"$ref":"#/components/responses/Held"`} {
		if !strings.Contains(op, part) {
			t.Errorf("%s is not in %s", part, op)
		}
	}
	in := string(doc.Components.Schemas["tool.tree.input"])
	if n := strings.Count(in, `"$ref":"#/components/schemas/tool.tree.input/$defs/node"`); n != 3 || !strings.Contains(in, `"all":{"$ref":"#/components/schemas/tool.tree.input"}`) ||
		!strings.Contains(in, `"default":{"$ref":"#/left"}`) || !strings.Contains(in, `"$ref":{"type":"string"}`) || strings.Contains(in, "$schema") {
		t.Error(in)
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	w.do(t, "GET", "/tools?limit=1000", "", nil).read(t, &list)
	for _, tool := range list.Tools {
		if doc.Paths["/tools/"+tool.Name]["post"] == nil {
			t.Errorf("%s has no path", tool.Name)
		}
	}
	first := w.do(t, "GET", "/openapi.json", "", nil)
	if r := w.do(t, "GET", "/openapi.json", "", header{"If-None-Match": first.Header.Get("ETag")}); r.StatusCode != 304 {
		t.Errorf("status %d for who has it", r.StatusCode)
	}
	// A tool that is gone is no longer described.
	w.Svc.RemoveTool("tree")
	bustest.Eventually(t, "the tool is gone", func() bool { return read().Paths["/tools/tree"] == nil })
}

// The document's size counts references at their length in the document.
func TestOpenAPIOfManyReferences(t *testing.T) {
	t.Parallel()
	w := start(t)
	const many = 11
	refs := strings.TrimSuffix(strings.Repeat(`{"$ref":"#"},`, 2400), ",")
	for i := range many {
		service.AddTool(w.Svc.Service, service.Tool{Name: fmt.Sprintf("%0128d", i), InputSchema: []byte(`{"type":"object","allOf":[` + refs + `]}`)},
			func(context.Context, *service.Call, []byte) (*service.Result, error) { return &service.Result{}, nil })
	}
	bustest.Eventually(t, "the tools are there", func() bool { return w.do(t, "GET", fmt.Sprintf("/tools/%0128d", many-1), "", nil).StatusCode == 200 })
	var doc struct {
		LeftOut int                       `json:"x-busbar-left-out"`
		Paths   map[string]jsontext.Value `json:"paths"`
	}
	r := w.do(t, "GET", "/openapi.json", "", nil)
	r.read(t, &doc)
	if len(r.body) > 5<<20 || doc.LeftOut == 0 || doc.Paths["/tools/"+fmt.Sprintf("%0128d", 0)] == nil {
		t.Errorf("%d bytes, %d tools left out", len(r.body), doc.LeftOut)
	}
}

func TestLLMs(t *testing.T) {
	t.Parallel()
	w := start(t)
	service.AddTool(w.Svc.Service, service.Tool{Name: "sly", Description: "a\n\n# Heading [x](https://elsewhere.example)"},
		func(context.Context, *service.Call, struct{}) (string, error) { return "", nil })
	w.Svc.AddResource(mcp.Resource{URI: `sly:a\](https://elsewhere.example)`, Name: "sly"}, edgetest.ReadNothing)
	var text string
	bustest.Eventually(t, "the tool is listed", func() bool {
		text = w.do(t, "GET", "/llms.txt", "", nil).body
		return strings.Contains(text, "(/tools/sly)") && strings.Contains(text, "[sly:a")
	})
	if !strings.HasPrefix(text, "# Busbar\n\n> ") || strings.Contains(text, "\n# Heading") || strings.Contains(text, "[x](") || !strings.Contains(text, `[sly:a\\\](`) { // an escaped backslash and bracket
		t.Error(text)
	}
	for _, part := range []string{"\n## Tools\n", "- [echo](/tools/echo)", "\n## Resources\n", "\n## Prompts\n", "- [greet](/prompts/greet)", "\n## Optional\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}
