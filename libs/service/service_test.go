package service_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

func addPlain(s *service.Service, name string) {
	service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, struct{}) (string, error) { return name, nil })
}

func readNothing(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
	return nil, nil
}

// Start returns all mistakes at once, each with the name of its definition.
func TestMisdeclaredService(t *testing.T) {
	t.Parallel()
	s := quiet(t, "not a name")
	addPlain(s, "good")
	addPlain(s, "twice")
	addPlain(s, "twice")
	for _, name := range []string{"", "with space", "ümlaut", strings.Repeat("x", 129)} {
		addPlain(s, name)
	}
	raw := func(context.Context, *service.Call, []byte) (*service.Result, error) { return nil, nil }
	service.AddTool(s, service.Tool{Name: "bad-input", InputSchema: []byte(`{"type":"object","properties":7}`)}, raw)
	service.AddTool(s, service.Tool{Name: "array-input", InputSchema: []byte(`{"type":"array"}`)}, raw)
	service.AddTool(s, service.Tool{Name: "network", InputSchema: []byte(`{"type":"object","$ref":"https://example.com/x"}`)}, raw)
	service.AddTool(s, service.Tool{Name: "bad-header", InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`)}, raw)
	service.AddTool(s, service.Tool{Name: "bad-output", OutputSchema: []byte(`nonsense`)}, raw)
	service.AddTool(s, service.Tool{Name: "string-input"}, func(context.Context, *service.Call, string) (string, error) { return "", nil })
	service.AddTool(s, service.Tool{Name: "channel-output"}, func(context.Context, *service.Call, struct{}) (chan int, error) { return nil, nil })
	s.AddResource(mcp.Resource{URI: "res://nameless"}, readNothing)
	s.AddResource(mcp.Resource{Name: "no-uri"}, readNothing)
	s.AddResource(mcp.Resource{URI: "res://twice", Name: "n"}, readNothing)
	s.AddResource(mcp.Resource{URI: "res://twice", Name: "n"}, readNothing)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "tpl://{", Name: "n"}, readNothing, nil)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "tpl://nameless/{x}"}, readNothing, nil)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "tpl://twice/{x}", Name: "n"}, readNothing, nil)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "tpl://twice/{x}", Name: "n"}, readNothing, nil)
	render := func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }
	s.AddPrompt(mcp.Prompt{}, render, nil)
	s.AddPrompt(mcp.Prompt{Name: "prompt-twice"}, render, nil)
	s.AddPrompt(mcp.Prompt{Name: "prompt-twice"}, render, nil)
	service.AddTool[struct{}, any](s, service.Tool{Name: "nil"}, nil)
	service.AddPrompt[struct{}](s, service.Prompt{Name: "nil-typed"}, nil)
	service.AddTemplate[struct{}](s, service.Template{URITemplate: "nil://typed", Name: "n"}, nil)
	s.AddPrompt(mcp.Prompt{Name: "nil"}, nil, nil)
	s.AddResource(mcp.Resource{URI: "nil://resource", Name: "n"}, nil)
	s.AddResource(mcp.Resource{URI: "no uri", Name: "n"}, readNothing)
	s.AddResource(mcp.Resource{URI: "my_app://x", Name: "n"}, readNothing)
	s.AddResource(mcp.Resource{URI: "app://host:port/x", Name: "n"}, readNothing)
	for _, uri := range []string{"good:///C:/x y", "good:a:b", "good:x@y", "good:", "good:/x?q#f", "good://h"} {
		s.AddResource(mcp.Resource{URI: uri, Name: "good"}, readNothing)
	}
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "nil://{x}", Name: "n"}, nil, nil)
	s.OnStop(nil)
	s.Go(nil)
	_, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{
		`service name "not a name"`, "tool twice: added twice", "tool with space:", "tool ümlaut:", "tool bad-input: input schema:", "tool array-input:", "tool network:",
		"tool bad-header:", "tool bad-output: output schema:", "tool string-input:", "tool channel-output:", "resource res://nameless:", "resource res://twice: added twice",
		"resource template tpl://{:", "resource template tpl://nameless/{x}:", "resource template tpl://twice/{x}: added twice", "a prompt needs a name", "prompt prompt-twice: added twice",
		"tool nil: its function is nil", "prompt nil-typed: its function is nil", "resource template nil://typed: its function is nil", "prompt nil: its function is nil",
		"resource nil://resource: its function is nil", "resource no uri: a resource's URI begins with a scheme", "resource my_app://x: a resource's URI begins with a scheme of letters",
		`resource app://host:port/x: a client would not take its URI: parse "app://host:port/x": invalid port`, "resource template nil://{x}: its function is nil", "OnStop: its function is nil", "Go: its function is nil",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if strings.Contains(err.Error(), "tool good") || strings.Contains(err.Error(), "resource good:") {
		t.Errorf("a mistake that is none: %v", err)
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestBadVersionDoesNotStart(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	if _, err := quiet(t, "svc", service.WithVersion("one")).Start(t.Context(), conn); err == nil || !strings.Contains(err.Error(), "svc") {
		t.Errorf("error %v", err)
	}
	caller, err := bus.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	if _, err := caller.Call(t.Context(), "svc", tool("t", `{}`), nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("it serves nevertheless: %v", err)
	}
}

// A definition that is added to or removed from a running service is announced at once.
func TestChangesAtRunTime(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	addPlain(s, "b")
	c := run(t, s)
	names := func(want string) {
		t.Helper()
		c.catalogue("the catalogue is "+want, func(c *busv1.Catalogue) bool {
			var got []string
			for _, x := range c.Tools {
				got = append(got, x.Name)
			}
			for _, x := range c.Resources {
				got = append(got, x.Uri)
			}
			for _, x := range c.ResourceTemplates {
				got = append(got, x.UriTemplate)
			}
			for _, x := range c.Prompts {
				got = append(got, x.Name)
			}
			return strings.Join(got, " ") == want
		})
	}
	names("b")
	c.fails(tool("a", `{}`), fault.UnknownTool)
	addPlain(s, "a")
	c.result(tool("a", `{}`))
	names("a b")
	s.AddResource(mcp.Resource{URI: "r://1", Name: "r"}, readNothing)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "t"}, readNothing, nil)
	s.AddPrompt(mcp.Prompt{Name: "p"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	names("a b r://1 t://{x} p")
	addPlain(s, "not a name") // only logged
	s.RemoveTool("b")
	s.RemoveResource("r://1")
	s.RemovePrompt("p")
	s.RemovePrompt("never there")
	names("a t://{x}")
	c.fails(tool("b", `{}`), fault.UnknownTool)
}

// However many goroutines change the service, its last state is announced last.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	c := run(t, s)
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { addPlain(s, fmt.Sprintf("t%02d", i)) })
	}
	all.Wait()
	c.catalogue("all are announced", func(c *busv1.Catalogue) bool { return len(c.Tools) == n })
}

// Two instances in one process are two instances on the bus; stopping one
// twice does no harm to the other.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	s := quiet(t, "svc", service.WithConcurrency(2), service.WithDescription("d"))
	addPlain(s, "t")
	conn := bustest.Connect(t, url)
	var running []*service.Running
	for range 2 {
		r, err := s.Start(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, r)
	}
	watch, err := registry.Watch(t.Context(), conn, func([]registry.Service) {})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	instances := func(n int) {
		t.Helper()
		bustest.Eventually(t, fmt.Sprint(n, " instances"), func() bool {
			got := 0
			for _, s := range watch.Services() {
				got += len(s.Instances)
			}
			return got == n
		})
	}
	instances(2)
	for range 2 {
		if err := running[0].Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	instances(1)
	addPlain(s, "u")
	bustest.Eventually(t, "the other goes on", func() bool { return len(watch.Services()[0].Catalogue.Tools) == 2 })
	if err := running[1].Stop(t.Context()); err != nil {
		t.Error(err)
	}
	instances(0)
}
