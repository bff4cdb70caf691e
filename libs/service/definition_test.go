package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

type color string

// returning adds a tool that returns a value.
func returning[Out any](s *service.Service, t service.Tool, v Out) {
	service.AddTool(s, t, func(context.Context, *service.Call, struct{}) (Out, error) { return v, nil })
}

// TestTextIsTextAsItIs: a JSON string becomes content without quotes. It becomes structured content
// only if the tool has an output schema; none is inferred for text.
func TestTextIsTextAsItIs(t *testing.T) {
	t.Parallel()
	word := "a \"b\"\n<c>"
	s := quiet(t, "svc")
	returning(s, service.Tool{Name: "string"}, word)
	returning(s, service.Tool{Name: "named"}, color("red"))
	returning(s, service.Tool{Name: "time"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	returning(s, service.Tool{Name: "bytes"}, []byte("hi"))
	returning[any](s, service.Tool{Name: "any"}, "one")
	returning[any](s, service.Tool{Name: "any-number"}, 1)
	returning(s, service.Tool{Name: "optional"}, &word)
	returning[*string](s, service.Tool{Name: "nil"}, nil)
	returning(s, service.Tool{Name: "said", OutputSchema: []byte(`{"type":"string"}`)}, "one")
	returning(s, service.Tool{Name: "object"}, map[string]string{"a": "b"})
	c := run(t, s)
	quoted := `"a \"b\"\n<c>"`
	content := func(text string) string { return `{"content":[{"type":"text","text":` + text + `}]` }
	for name, want := range map[string]string{
		"string":     content(quoted) + "}",
		"named":      content(`"red"`) + "}",
		"time":       content(`"2026-01-02T03:04:05Z"`) + "}",
		"bytes":      content(`"aGk="`) + "}",
		"any":        content(`"one"`) + "}",
		"any-number": content(`"1"`) + `,"structuredContent":1}`,
		"optional":   content(quoted) + `,"structuredContent":` + quoted + "}",
		"nil":        `{"content":[],"structuredContent":null}`,
		"said":       content(`"one"`) + `,"structuredContent":"one"}`,
		"object":     content(`"{\"a\":\"b\"}"`) + `,"structuredContent":{"a":"b"}}`,
	} {
		same(t, name, c.result(tool(name, "{}")), want)
	}
	for _, shown := range c.catalogue("they are announced", func(c *busv1.Catalogue) bool { return len(c.Tools) == 10 }).Tools {
		declares := map[string]bool{"optional": true, "nil": true, "said": true, "object": true}[shown.Name]
		if strings.Contains(string(shown.Json), "outputSchema") != declares {
			t.Errorf("%s: %s", shown.Name, shown.Json)
		}
	}
}

// TestLargeResults: plain text counts once towards the limit; a structured result counts twice, and
// the error says so.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", bus.MaxResult-100)
	s := quiet(t, "svc")
	returning(s, service.Tool{Name: "text"}, large)
	returning(s, service.Tool{Name: "longer"}, large+strings.Repeat("x", 100))
	returning(s, service.Tool{Name: "object"}, map[string]string{"a": large[:bus.MaxResult/2]})
	c := run(t, s)
	if got := c.result(tool("text", "{}")); len(got) < len(large) {
		t.Errorf("the text has %d bytes", len(got))
	}
	for name, want := range map[string]string{
		"longer": fmt.Sprintf("the result is %d bytes; the limit is %d.", bus.MaxResult+len(`{"content":[{"type":"text","text":""}]}`), bus.MaxResult),
		"object": fmt.Sprintf("the result is %d bytes of JSON, which makes ", bus.MaxResult/2+len(`{"a":""}`)),
	} {
		if f := c.fails(tool(name, "{}"), fault.ResultTooLarge); !strings.HasPrefix(f.Message, want) || f.Executed != fault.Yes {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// mistaken adds something that is not well formed, whatever it is.
var mistaken = map[string]func(s *service.Service){
	"tool shop_t: input schema": func(s *service.Service) {
		s.AddTool(service.Tool{Name: "t", InputSchema: []byte(`{"type":7}`)}, nothing)
	},
	"tool shop_u: Meta is not a JSON object": func(s *service.Service) { s.AddTool(service.Tool{Name: "u", Meta: 7}, nothing) },
	"tool shop_v: its function is nil":       func(s *service.Service) { s.AddTool(service.Tool{Name: "v"}, nil) },
	"tool shop_good: added twice":            func(s *service.Service) { s.AddTool(service.Tool{Name: "good"}, nothing) },
	"tool shop_w: input schema: field A": func(s *service.Service) {
		service.AddTool(s, service.Tool{Name: "w"}, func(context.Context, *service.Call, struct {
			A int `json:"a" schema:"minimun=1"`
		}) (string, error) {
			return "", nil
		})
	},
	"resource x:1: a resource needs a URI and a name": func(s *service.Service) { s.AddResource(mcp.Resource{URI: "x:1"}, nowhere) },
	"resource x:2: ": func(s *service.Service) {
		s.AddResource(mcp.Resource{URI: "x:2", Name: "two", Meta: mcp.Meta("7")}, nowhere)
	},
	"resource template x:{": func(s *service.Service) {
		s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "x:{", Name: "x"}, nowhere, nil)
	},
	"resource template x:{a}: Meta is not": func(s *service.Service) {
		service.AddTemplate(s, service.Template{URITemplate: "x:{a}", Name: "x", Meta: []int{}}, func(context.Context, *service.Call, struct {
			A string `json:"a"`
		}) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
	},
	"prompt : a prompt needs a name": func(s *service.Service) { s.AddPrompt(mcp.Prompt{}, says, nil) },
	"prompts: p: ": func(s *service.Service) {
		s.SetPrompts([]service.ServedPrompt{{Prompt: mcp.Prompt{Name: "p", Meta: mcp.Meta("{")}, Render: says}})
	},
	"prompt q: Meta is not": func(s *service.Service) {
		service.AddPrompt(s, service.Prompt{Name: "q", Meta: "x"}, func(context.Context, *service.Call, struct{}) ([]mcp.PromptMessage, error) { return nil, nil })
	},
	"tool shop_deep: ": func(s *service.Service) {
		s.AddTool(service.Tool{Name: "deep", Meta: nestedMeta(33)}, nothing)
	},
	"resource x:deep: ": func(s *service.Service) {
		s.AddResource(mcp.Resource{URI: "x:deep", Name: "deep", Meta: nestedMeta(33)}, nowhere)
	},
	"prompt deep: ": func(s *service.Service) {
		s.AddPrompt(mcp.Prompt{Name: "deep", Meta: nestedMeta(33)}, says, nil)
	},
	"skill: ":          func(s *service.Service) { s.AddSkill(fstest.MapFS{}) },
	"resource prefix ": func(s *service.Service) { s.AddResourcePrefix("y:", nil) },
}

// nestedMeta is a _meta of so many levels.
func nestedMeta(levels int) mcp.Meta {
	return mcp.Meta(`{"example.com/a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
}

func nothing(context.Context, *service.Call, []byte) (*service.Result, error) {
	return &service.Result{}, nil
}

func nowhere(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return []mcp.ResourceContents{{Text: "here", Meta: mcp.Meta(`{"a":1}`)}}, nil
}

func says(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
	return nil, nil
}

// TestTry returns each mistake by its name, before the service runs and while it does. Well-formed
// definitions are served.
func TestTry(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	s := service.New("shop", service.WithNamespace("shop"), service.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	s.AddTool(service.Tool{Name: "good"}, nothing)
	tried := func(when string) {
		t.Helper()
		for want, add := range mistaken {
			if err := s.Try(func() { add(s) }); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", when, err, want)
			}
		}
	}
	tried("before it runs")
	err := s.Try(func() {
		s.AddTool(service.Tool{Name: "better"}, nothing)
		mistaken["skill: "](s)
		mistaken["prompt : a prompt needs a name"](s)
	})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two mistakes: %v", err)
	}
	if err := s.Try(func() {}); err != nil {
		t.Errorf("mistakes of earlier ones are left: %v", err)
	}
	c := run(t, s)
	if err := s.Try(func() {
		mistaken["skill: "](s)
		r, err := s.Start(t.Context(), c.conn)
		if err != nil {
			t.Errorf("an instance that starts during a Try is refused for its mistakes: %v", err)
			return
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}); err == nil {
		t.Error("the mistake is not returned")
	}
	tried("while it runs")
	if strings.Contains(logged.String(), "not added") {
		t.Errorf("what was returned is logged too: %s", &logged)
	}
	all := c.catalogue("two tools are there", func(c *busv1.Catalogue) bool { return len(c.Tools) == 2 })
	if all.Tools[0].Name != "shop_better" || len(all.Resources)+len(all.ResourceTemplates)+len(all.Prompts)+len(all.Skills) > 0 {
		t.Errorf("it offers %v", all)
	}
	if got := c.result(tool("shop_better", "{}")); got != `{"content":[]}` {
		t.Error(got)
	}

	for want, add := range mistaken {
		s := quiet(t, "shop", service.WithNamespace("shop"))
		s.AddTool(service.Tool{Name: "good"}, nothing)
		add(s)
		if _, err := s.Start(t.Context(), c.conn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("outside of Try: got %v, want %s", err, want)
		}
	}
}

// TestMistakesOfARunningService are logged, and keep no other instance from starting.
func TestMistakesOfARunningService(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	s := service.New("shop", service.WithNamespace("shop"), service.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	s.AddTool(service.Tool{Name: "good"}, nothing)
	c := run(t, s)
	for want, add := range mistaken {
		before := logged.Len()
		add(s)
		if line := logged.String()[before:]; strings.Count(line, "not added to the running service") != 1 {
			t.Errorf("%s is logged as %q", want, line)
		}
	}
	r, err := s.Start(t.Context(), c.conn)
	if err != nil {
		t.Fatalf("a second instance is refused for what the first one has reported: %v", err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMetaOfDefinitions: the _meta of a definition appears unchanged in lists and contents.
func TestMetaOfDefinitions(t *testing.T) {
	t.Parallel()
	meta := map[string]any{"example.com/n": 12345678901234567}
	raw := `{"example.com/n":12345678901234567}`
	size := int64(7)
	s := quiet(t, "svc")
	s.AddTool(service.Tool{Name: "t", Meta: meta}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		text, link := mcp.Text("a"), mcp.Link(mcp.Resource{URI: "x:1", Name: "one"})
		text.Meta, link.Meta = []byte(raw), []byte(raw)
		return &service.Result{Content: []mcp.Content{text, link, mcp.Embed(mcp.ResourceContents{URI: "x:1", Meta: []byte(raw)})}}, nil
	})
	s.AddResource(mcp.Resource{URI: "x:1", Name: "one", Size: &size, Annotations: &mcp.Annotations{Audience: []string{"user"}}, Meta: []byte(raw)}, nowhere)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "x:{a}", Name: "x", Meta: []byte(raw)}, nowhere, nil)
	service.AddTemplate(s, service.Template{URITemplate: "y:{a}", Name: "y", Meta: meta}, func(context.Context, *service.Call, struct {
		A string `json:"a"`
	}) ([]mcp.ResourceContents, error) {
		return nil, nil
	})
	s.AddPrompt(mcp.Prompt{Name: "p", Meta: []byte(raw)}, says, nil)
	service.AddPrompt(s, service.Prompt{Name: "q", Meta: meta}, func(context.Context, *service.Call, struct{}) ([]mcp.PromptMessage, error) { return nil, nil })
	s.AddTool(service.Tool{Name: "u", Meta: nestedMeta(32)}, nothing)
	c := run(t, s)
	all := c.catalogue("all is there", func(c *busv1.Catalogue) bool { return len(c.Prompts) == 2 })
	same(t, "tool", string(all.Tools[0].Json), `{"name":"t","inputSchema":{"type":"object"},"_meta":`+raw+`}`)
	same(t, "resource", string(all.Resources[0].Json), `{"uri":"x:1","name":"one","size":7,"annotations":{"audience":["user"]},"_meta":`+raw+`}`)
	same(t, "template", string(all.ResourceTemplates[0].Json), `{"uriTemplate":"x:{a}","name":"x","_meta":`+raw+`}`)
	same(t, "typed template", string(all.ResourceTemplates[1].Json), `{"uriTemplate":"y:{a}","name":"y","_meta":`+raw+`}`)
	same(t, "prompt", string(all.Prompts[0].Json), `{"name":"p","_meta":`+raw+`}`)
	same(t, "typed prompt", string(all.Prompts[1].Json), `{"name":"q","_meta":`+raw+`}`)
	same(t, "contents", c.result(&busv1.Request{Method: mcp.MethodResourcesRead, Name: "x:1"}), `{"contents":[{"uri":"x:1","text":"here","_meta":{"a":1}}]}`)
	same(t, "content", c.result(tool("t", "{}")), `{"content":[{"type":"text","text":"a","_meta":`+raw+`},{"type":"resource_link","uri":"x:1","name":"one","_meta":`+raw+
		`},{"type":"resource","resource":{"uri":"x:1","text":"","_meta":`+raw+`}}]}`)
}

// TestRemoveResourceTemplate removes a template of either kind, and nothing else.
func TestRemoveResourceTemplate(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	for _, scheme := range []string{"x", "y", "z"} {
		s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: scheme + ":{a}", Name: scheme}, nowhere, nil)
	}
	c := run(t, s)
	read := func(uri string) *busv1.Request { return &busv1.Request{Method: mcp.MethodResourcesRead, Name: uri} }
	c.result(read("y:1"))
	s.RemoveResourceTemplate("y:{a}")
	s.RemoveResourceTemplate("nothing:{a}")
	all := c.catalogue("two are left", func(c *busv1.Catalogue) bool { return len(c.ResourceTemplates) == 2 })
	if all.ResourceTemplates[0].UriTemplate != "x:{a}" || all.ResourceTemplates[1].UriTemplate != "z:{a}" {
		t.Errorf("left: %v", all.ResourceTemplates)
	}
	c.fails(read("y:1"), fault.UnknownResource)
	c.result(read("z:1"))
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "y:{a}", Name: "y"}, nowhere, nil)
	c.catalogue("it is there again", func(c *busv1.Catalogue) bool { return len(c.ResourceTemplates) == 3 })
	c.result(read("y:1"))
}

// TestJoin serves several services in one process, and ends all of them when one fails.
func TestJoin(t *testing.T) {
	t.Parallel()
	at := join.Flags{NATS: bustest.Server(t)}
	edge := bustest.Connect(t, at.NATS)
	caller := bustest.Caller(t, edge)
	closed := make(chan string, 4)
	named := func(name string) *service.Service {
		s := quiet(t, name)
		s.OnStop(func() { closed <- name })
		returning(s, service.Tool{Name: "who"}, name)
		return s
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- service.Join(ctx, at, named("one"), named("two")) }()
	for _, name := range []string{"one", "two"} {
		bustest.Eventually(t, name+" answers", func() bool {
			frame, err := caller.Call(t.Context(), name, tool("who", "{}"), nil)
			return err == nil && strings.Contains(string(frame.GetResult().GetJson()), name)
		})
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("told to end: %v", err)
	}
	wrong := named("wrong")
	wrong.AddTool(service.Tool{}, nothing)
	if err := service.Join(t.Context(), at, named("three"), wrong); err == nil || !strings.HasPrefix(err.Error(), "service wrong: ") || strings.Contains(err.Error(), "three") {
		t.Errorf("one is wrong: %v", err)
	}
	for range 4 {
		<-closed
	}
}
