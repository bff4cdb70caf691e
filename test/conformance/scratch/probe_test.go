package scratch

import (
	"context"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/test/conformance/fixture"
)

func gw(t *testing.T, ss ...*service.Service) *gateway.Gateway {
	url := bustest.Server(t)
	for _, s := range ss {
		r, err := s.Start(t.Context(), bustest.Connect(t, url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Stop(context.Background()) })
	}
	mine := bustest.Connect(t, url)
	live, err := catalogue.Watch(t.Context(), mine, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	caller, err := bus.NewCaller(mine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caller.Close() })
	return gateway.New(gateway.Config{Caller: caller, Catalogue: live, Logger: bustest.Logger(t)})
}

func TestTwoInstances(t *testing.T) {
	g := gw(t, fixture.New(), fixture.New())
	silent := 0
	for range 20 {
		sub := g.Catalogue().Subscribe()
		if _, err := g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "test_trigger_tool_change"}, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-sub.C:
		case <-time.After(500 * time.Millisecond):
			silent++
		}
		sub.Close()
	}
	t.Logf("%d of 20 changes were not announced to clients", silent)
	fails := 0
	if _, ok := g.Catalogue().Now().Tool("zz_changing_tool"); !ok {
		g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "test_trigger_tool_change"}, nil)
	}
	time.Sleep(200 * time.Millisecond)
	_, listed := g.Catalogue().Now().Tool("zz_changing_tool")
	for range 20 {
		if _, err := g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "zz_changing_tool"}, nil); err != nil {
			fails++
			if fails == 1 {
				t.Log(err)
			}
		}
	}
	t.Logf("listed=%v: %d of 20 calls of it failed", listed, fails)
}

func TestModes(t *testing.T) {
	s := service.New("modes")
	service.AddTool(s, service.Tool{Name: "url"}, func(_ context.Context, c *service.Call, _ struct{}) (*service.Result, error) {
		_, err := c.Ask(service.ElicitURL("k", "go there", "https://example.com", "id1"))
		return nil, err
	})
	service.AddTool(s, service.Tool{Name: "form"}, func(_ context.Context, c *service.Call, _ struct{}) (*service.Result, error) {
		_, err := c.Ask(service.Elicit("k", "fill in", map[string]any{"type": "object", "properties": map[string]any{}}))
		return nil, err
	})
	s.AddPrompt(mcp.Prompt{Name: "p", Arguments: []mcp.PromptArgument{{Name: "a"}}}, nil, map[string]service.CompleteFunc{"a": func(_ context.Context, c *service.Call, _ string, _ map[string]string) ([]string, error) {
		_, err := c.Ask(service.Roots("r"))
		return nil, err
	}})
	g := gw(t, s)
	for name, caps := range map[string]string{"url": `{"elicitation":{}}`, "form": `{"elicitation":{"url":{}}}`} {
		a, err := g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: name, Client: &busv1.Client{Capabilities: []byte(caps)}}, nil)
		t.Logf("%s with %s: %v %v", name, caps, a, err)
	}
	a, err := g.Do(t.Context(), &gateway.Call{Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`), Client: &busv1.Client{Capabilities: []byte(`{"roots":{}}`)}}, nil)
	t.Logf("completion: %v %v", a, err)
	// an answer that does not meet the form
	g = gw(t, fixture.New())
	a, err = g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "test_input_required_result_elicitation", InputResponses: []byte(`{"user_name":{"action":"accept"}}`), Client: &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}}, nil)
	t.Logf("accept without content: %v %v", a, err)
	a, err = g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "test_input_required_result_sampling", InputResponses: []byte(`{"capital_question":{"nonsense":1}}`), Client: &busv1.Client{Capabilities: []byte(`{"sampling":{}}`)}}, nil)
	t.Logf("sampling answer without content: %v %v", a, err)
	a, err = g.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "test_input_required_result_list_roots", InputResponses: []byte(`{"client_roots":{"nonsense":1}}`), Client: &busv1.Client{Capabilities: []byte(`{"roots":{}}`)}}, nil)
	t.Logf("roots answer without roots: %v %v", a, err)
}
