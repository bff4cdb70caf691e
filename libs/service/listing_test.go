package service_test

import (
	"context"
	"strconv"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

func TestListResources(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.ListResources(func(_ context.Context, _ *service.Call, cursor string, limit int) (service.ResourcePage, error) {
		if cursor == "end" {
			return service.ResourcePage{}, nil
		}
		return service.ResourcePage{Resources: []mcp.Resource{{URI: "x:" + cursor, Name: strconv.Itoa(limit)}}, Next: "end"}, nil
	})
	read := func(by string) service.ReadFunc {
		return func(_ context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{URI: uri, Text: by}}, nil
		}
	}
	s.AddResourcePrefix("x:", read("short"))
	s.AddResourcePrefix("x:y", read("long"))
	s.AddResource(mcp.Resource{URI: "x:yz", Name: "own"}, read("own"))
	c := run(t, s)
	wire := c.catalogue("it is announced", func(c *busv1.Catalogue) bool { return c.ListsResources })
	if len(wire.ResourcePrefixes) != 2 || wire.ResourcePrefixes[0] != "x:" || len(wire.Resources) != 1 {
		t.Errorf("%v", wire)
	}
	list := func(arguments string) *busv1.Request {
		return &busv1.Request{Method: "resources/list", Arguments: []byte(arguments)}
	}
	same(t, "a page", c.result(list(`{"limit":5,"cursor":"c"}`)), `{"resources":[{"uri":"x:c","name":"5"}],"nextCursor":"end"}`)
	same(t, "the last", c.result(list(`{"limit":5,"cursor":"end"}`)), `{"resources":[]}`)
	for _, bad := range []string{``, `{}`, `{"limit":0}`, `{"limit":"1"}`, `{"limit":1,"cursor":7}`} {
		c.fails(list(bad), fault.InvalidParams)
	}
	for uri, by := range map[string]string{"x:1": "short", "x:y1": "long", "x:yz": "own"} {
		same(t, uri, c.result(&busv1.Request{Method: "resources/read", Name: uri}), `{"contents":[{"uri":"`+uri+`","text":"`+by+`"}]}`)
	}
	c.fails(&busv1.Request{Method: "resources/read", Name: "y:"}, fault.UnknownResource)
}

func TestListPrompts(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.AddPrompt(mcp.Prompt{Name: "both"}, saying("", "everybody's").Render, nil)
	s.AddPrompt(mcp.Prompt{Name: "everybody's"}, saying("", "everybody's").Render, nil)
	s.ListPrompts(func(_ context.Context, call *service.Call, cursor string, limit int) (service.PromptPage, error) {
		if cursor == "end" {
			return service.PromptPage{}, nil
		}
		return service.PromptPage{Prompts: []mcp.Prompt{{Name: call.Tenant() + cursor, Title: strconv.Itoa(limit)}}, Next: "end"}, nil
	}, func(_ context.Context, call *service.Call, name string) (*service.ServedPrompt, error) {
		if name != "both" && name != "own" {
			return nil, nil
		}
		p := saying(name, "of "+call.Tenant())
		p.Complete = map[string]service.CompleteFunc{"x": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
			return []string{call.Tenant()}, nil
		}}
		return &p, nil
	})
	c := run(t, s)
	c.catalogue("it is announced", func(c *busv1.Catalogue) bool { return c.ListsPrompts })
	as := func(tenant, method, name, arguments string) *busv1.Request {
		return &busv1.Request{Method: method, Name: name, Arguments: []byte(arguments), Identity: &busv1.Identity{Principal: "p", Tenant: tenant}}
	}
	same(t, "a page", c.result(as("t", "prompts/list", "", `{"limit":5,"cursor":"c"}`)), `{"prompts":[{"name":"tc","title":"5"}],"nextCursor":"end"}`)
	same(t, "the last", c.result(as("t", "prompts/list", "", `{"limit":5,"cursor":"end"}`)), `{"prompts":[]}`)
	same(t, "one", c.result(as("t", "prompts/list", "", `{"limit":1,"name":"own"}`)), `{"prompts":[{"name":"own"}]}`)
	c.fails(as("t", "prompts/list", "", `{"limit":1,"name":"none"}`), fault.UnknownPrompt)
	c.fails(as("t", "prompts/list", "", `{}`), fault.InvalidParams)
	said := func(text string) string {
		return `{"messages":[{"role":"user","content":{"type":"text","text":"` + text + `"}}]}`
	}
	for _, w := range []struct{ tenant, name, says string }{
		{"t", "both", "of t"}, {"t", "own", "of t"}, {"u", "own", "of u"}, {"t", "everybody's", "everybody's"}, {"", "both", "everybody's"},
	} {
		same(t, w.tenant+" "+w.name, c.result(as(w.tenant, "prompts/get", w.name, "")), said(w.says))
	}
	for _, r := range []*busv1.Request{as("", "prompts/get", "own", ""), as("t", "prompts/get", "none", "")} {
		c.fails(r, fault.UnknownPrompt)
	}
	typed := `{"ref":{"type":"ref/prompt","name":"own"},"argument":{"name":"x","value":""}}`
	same(t, "completed", c.result(as("t", "completion/complete", "", typed)), `{"completion":{"values":["t"],"total":1,"hasMore":false}}`)
	c.fails(as("", "completion/complete", "", typed), fault.UnknownPrompt)
}

func TestNothingListed(t *testing.T) {
	t.Parallel()
	c := run(t, quiet(t, "svc"))
	c.fails(&busv1.Request{Method: "resources/list", Arguments: []byte(`{"limit":5}`)}, fault.MethodNotFound)
	c.fails(&busv1.Request{Method: "prompts/list", Arguments: []byte(`{"limit":5}`)}, fault.MethodNotFound)
}

func TestResourcesUpdated(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	if err := s.ResourcesUpdated(t.Context(), service.ResourceUpdate{URI: "x:1"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before it runs: %v", err)
	}
	url := bustest.Server(t)
	r, err := s.Start(t.Context(), bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Stop(context.Background()) }()
	heard := make(chan bus.Updated, 200)
	stop, err := edges.OnUpdated(bustest.Connect(t, url), func(u bus.Updated) { heard <- u })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var all []service.ResourceUpdate
	for i := range 100 {
		all = append(all, service.ResourceUpdate{URI: "x:" + strconv.Itoa(i), Tenant: "t", Listed: i%2 == 0})
	}
	bustest.Eventually(t, "the bus listens", func() bool {
		return s.ResourcesUpdated(t.Context(), service.ResourceUpdate{URI: "first"}) == nil && len(heard) > 0
	})
	if err := s.ResourcesUpdated(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100; {
		u := <-heard
		if u.URI == "first" {
			continue
		}
		if (u != bus.Updated{Service: "svc", URI: all[i].URI, Tenant: "t", Listed: all[i].Listed}) {
			t.Fatalf("%d is %+v", i, u)
		}
		i++
	}
}
