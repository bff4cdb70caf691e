package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

func TestResources(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.AddResource(mcp.Resource{URI: "note://fixed", Name: "fixed", MIMEType: "text/plain"}, func(_ context.Context, _ *service.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, Text: fmt.Sprint(len(vars))}, {URI: uri, Blob: []byte{1}}}, nil
	})
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "note://{box}/{+path}", Name: "notes"}, func(_ context.Context, _ *service.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		switch vars["box"] {
		case "none":
			return nil, nil
		case "bad":
			return nil, errors.New("secret")
		case "fault":
			return nil, fault.New(fault.Forbidden, "not yours")
		}
		return []mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: vars["box"] + "|" + vars["path"]}}, nil
	}, map[string]service.CompleteFunc{"box": func(_ context.Context, _ *service.Call, typed string, others map[string]string) ([]string, error) {
		return []string{typed + "x", others["path"]}, nil
	}})
	c := run(t, s)
	read := func(uri string) *busv1.Request { return &busv1.Request{Method: "resources/read", Name: uri} }
	for uri, want := range map[string]string{
		"note://fixed":      `{"contents":[{"uri":"note://fixed","mimeType":"text/plain","text":"0"},{"uri":"note://fixed","mimeType":"text/plain","blob":"AQ=="}]}`,
		"note://in/a/b.txt": `{"contents":[{"uri":"note://in/a/b.txt","mimeType":"text/plain","text":"in|a/b.txt"}]}`,
		"note://%C3%A4/x":   `{"contents":[{"uri":"note://%C3%A4/x","mimeType":"text/plain","text":"ä|x"}]}`,
	} {
		same(t, uri, c.result(read(uri)), want)
	}
	for _, uri := range []string{"note://", "other://x/y", "", "note://none/x", "NOTE://fixed"} {
		if f := c.fails(read(uri), fault.UnknownResource); string(f.Data) != `{"uri":"`+uri+`"}` || f.Executed != fault.No {
			t.Errorf("%s: %+v", uri, f)
		}
	}
	c.fails(read("note://fault/x"), fault.Forbidden)
	if f := c.fails(read("note://bad/x"), fault.Internal); strings.Contains(f.Error(), "secret") {
		t.Error(f)
	}
	wire := c.catalogue("they are announced", func(c *busv1.Catalogue) bool { return len(c.Resources) == 1 && len(c.ResourceTemplates) == 1 })
	same(t, "resource", string(wire.Resources[0].Json), `{"uri":"note://fixed","name":"fixed","mimeType":"text/plain"}`)
	same(t, "template", string(wire.ResourceTemplates[0].Json), `{"uriTemplate":"note://{box}/{+path}","name":"notes"}`)

	complete := func(params string) *busv1.Request {
		return &busv1.Request{Method: "completion/complete", Arguments: []byte(params)}
	}
	same(t, "completion", c.result(complete(`{"ref":{"type":"ref/resource","uri":"note://{box}/{+path}"},"argument":{"name":"box","value":"i"},"context":{"arguments":{"path":"p"}}}`)),
		`{"completion":{"values":["ix","p"],"total":2,"hasMore":false}}`)
	same(t, "variable without completion", c.result(complete(`{"ref":{"type":"ref/resource","uri":"note://{box}/{+path}"},"argument":{"name":"path","value":"i"},"_meta":{}}`)),
		`{"completion":{"values":[],"total":0,"hasMore":false}}`)
	c.fails(complete(`{"ref":{"type":"ref/resource","uri":"note://none"},"argument":{"name":"box","value":""}}`), fault.UnknownResource)
	c.fails(complete(`{"ref":{"type":"ref/tool","name":"x"},"argument":{"name":"box","value":""}}`), fault.InvalidParams)
	for _, params := range []string{``, `{}`, `[]`, `{"ref":7}`, `{"ref":{"type":"ref/resource","uri":"note://{box}/{+path}"},"argument":{"name":"box","value":7}}`} {
		c.fails(complete(params), fault.InvalidParams)
	}
}

// A handler's description of a resource travels with its contents.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.AddResourcePrefix("note://", func(_ context.Context, call *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		call.Describe(mcp.Resource{URI: uri, Name: "a note", Description: "of mine"})
		return []mcp.ResourceContents{{URI: uri, Text: "x"}}, nil
	})
	frame, err := run(t, s).do(&busv1.Request{Method: "resources/read", Name: "note://1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "meta", string(frame.GetResult().GetMeta()), `{"io.github.busbar-mcp/resource":{"uri":"note://1","name":"a note","description":"of mine"}}`)
	same(t, "contents", string(frame.GetResult().GetJson()), `{"contents":[{"uri":"note://1","text":"x"}]}`)
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.AddPrompt(mcp.Prompt{Name: "greet", Description: "Greets.", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}},
		func(_ context.Context, _ *service.Call, in map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(in["who"] + "|" + in["how"])}}, nil
		}, map[string]service.CompleteFunc{"who": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
			var many []string
			for i := range 250 {
				many = append(many, fmt.Sprint(i))
			}
			return many, nil
		}, "how": func(context.Context, *service.Call, string, map[string]string) ([]string, error) { return nil, nil }})
	s.AddPrompt(mcp.Prompt{Name: "empty"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	c := run(t, s)
	get := func(name, arguments string) *busv1.Request {
		return &busv1.Request{Method: "prompts/get", Name: name, Arguments: []byte(arguments)}
	}
	same(t, "prompt", c.result(get("greet", `{"who":"Ada"}`)), `{"description":"Greets.","messages":[{"role":"user","content":{"type":"text","text":"Ada|"}}]}`)
	same(t, "no messages", c.result(get("empty", ``)), `{"messages":[]}`)
	c.fails(get("none", `{}`), fault.UnknownPrompt)
	if f := c.fails(get("greet", `{"how":"x"}`), fault.InvalidParams); !strings.Contains(f.Message, "who") {
		t.Errorf("%v does not name what is missing", f)
	}
	for _, bad := range []string{`{"who":7}`, `[]`, `{"who":null}`, `{"who":"a","who":"b"}`} {
		c.fails(get("greet", bad), fault.InvalidParams)
	}
	complete := func(prompt, argument string) *busv1.Request {
		return &busv1.Request{Method: "completion/complete", Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"` + prompt + `"},"argument":{"name":"` + argument + `","value":""}}`)}
	}
	many := c.result(complete("greet", "who"))
	if !strings.HasSuffix(many, `"99"],"total":250,"hasMore":true}}`) {
		t.Errorf("250 values became %s", many)
	}
	for _, argument := range []string{"how", "unknown"} {
		same(t, argument, c.result(complete("greet", argument)), `{"completion":{"values":[],"total":0,"hasMore":false}}`)
	}
	c.fails(complete("none", "x"), fault.UnknownPrompt)
	wire := c.catalogue("they are announced", func(c *busv1.Catalogue) bool { return len(c.Prompts) == 2 })
	same(t, "wire", string(wire.Prompts[1].Json), `{"name":"greet","description":"Greets.","arguments":[{"name":"who","required":true},{"name":"how"}]}`)
}
