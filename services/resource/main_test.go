package resource_test

import (
	"context"
	"os"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Code(databasetest.Main(m))) }

// engines are the databases that every test runs on.
var engines = map[string]func(*testing.T) resource.Env{
	"postgres": func(t *testing.T) resource.Env {
		return resource.Env{DataEnv: service.DataEnv{DatabaseURL: databasetest.Postgres(t)}}
	},
	"sqlite": func(t *testing.T) resource.Env {
		return resource.Env{DataEnv: service.DataEnv{DataDir: t.TempDir()}}
	},
}

func onBoth(t *testing.T, f func(t *testing.T, cfg resource.Env)) {
	t.Parallel()
	for name, config := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.Log = bustest.Logger(t)
			f(t, cfg)
		})
	}
}

// instance puts one more instance on a bus. stop removes it.
func instance(t *testing.T, url string, cfg resource.Env) (stop func()) {
	t.Helper()
	var r *service.Service
	if err := bustest.Heard(t, func() (err error) {
		r, err = resource.New(t.Context(), cfg)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	running, err := r.Start(t.Context(), bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// client calls the service as an edge does.
type client struct {
	t      *testing.T
	caller *bus.Caller
	tenant string
	tools  map[string]*busv1.Tool
}

func connect(t *testing.T, url string) *client {
	t.Helper()
	conn := bustest.Connect(t, url)
	caller := bustest.Caller(t, conn)
	c := &client{t: t, caller: caller, tools: map[string]*busv1.Tool{}}
	registry, err := registry.Watch(t.Context(), conn, func([]registry.Service) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	bustest.Eventually(t, "the service is there", func() bool { return len(registry.Services()) == 1 })
	for _, tool := range registry.Services()[0].Catalogue.Tools {
		c.tools[tool.Name] = tool
	}
	return c
}

// of is the client with another tenant.
func (c *client) of(tenant string) *client {
	other := *c
	other.tenant = tenant
	return &other
}

func (c *client) do(req *busv1.Request) (result []byte, err error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), bustest.Patience)
	defer cancel()
	req.Identity = &busv1.Identity{Principal: "p", Tenant: c.tenant}
	err = bustest.Heard(c.t, func() error {
		req.Id = "" // or the instance takes it for a copy of the call before
		frame, err := c.caller.Call(ctx, "resource", req, nil)
		result = frame.GetResult().GetJson()
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// call calls a tool with a key and returns its structured content, which must match its schema.
func (c *client) call(tool, key, arguments string) (jsontext.Value, error) {
	c.t.Helper()
	raw, err := c.do(&busv1.Request{Method: "tools/call", Name: tool, Arguments: []byte(arguments), IdempotencyKey: key})
	if err != nil {
		return nil, err
	}
	var result struct {
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		c.t.Fatalf("%s: %v in %.200s", tool, err, raw)
	}
	var shown struct {
		Output jsontext.Value `json:"outputSchema"`
		Rest   jsontext.Value `json:",inline"`
	}
	if err := json.Unmarshal(c.tools[tool].Json, &shown); err != nil {
		c.t.Fatal(err)
	}
	s, err := schema.Compile(shown.Output)
	if err == nil {
		err = s.Validate(result.Structured)
	}
	if err != nil {
		c.t.Errorf("%s: not as its schema says: %v: %s", tool, err, result.Structured)
	}
	return result.Structured, nil
}

// ok calls a tool that must succeed.
func ok[T any](c *client, tool, arguments string) (out T) {
	c.t.Helper()
	raw, err := c.call(tool, "", arguments)
	if err != nil {
		c.t.Fatalf("%s %.200s: %v", tool, arguments, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	return out
}

// refused calls a tool that must fail.
func (c *client) refused(reason fault.Reason, tool, arguments string) *fault.Error {
	c.t.Helper()
	raw, err := c.call(tool, "", arguments)
	if !fault.Is(err, reason) {
		c.t.Errorf("%s %.200s: %s %v, want %s", tool, arguments, raw, err, reason)
		return &fault.Error{}
	}
	return fault.From(err)
}

func quote(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
