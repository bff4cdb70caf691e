package service_test

import (
	"context"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// client calls a service the way an edge does.
type client struct {
	t      *testing.T
	conn   *bus.Conn
	caller *bus.Caller
	watch  *registry.Registry
	name   string
}

// run starts the service on a new bus.
func run(t *testing.T, s *service.Service) *client {
	t.Helper()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	r, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	edge := bustest.Connect(t, url)
	caller := bustest.Caller(t, edge)
	watch, err := registry.Watch(t.Context(), edge, func([]registry.Service) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Close)
	return &client{t: t, conn: edge, caller: caller, watch: watch, name: s.Name()}
}

func (c *client) do(req *busv1.Request, onFrame func(*busv1.Frame)) (*busv1.Frame, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), bustest.Patience)
	defer cancel()
	return c.caller.Call(ctx, c.name, req, onFrame)
}

func tool(name, arguments string) *busv1.Request {
	return &busv1.Request{Method: "tools/call", Name: name, Arguments: []byte(arguments)}
}

// quiet makes a service that logs into the test.
func quiet(t *testing.T, name string, opts ...service.Option) *service.Service {
	t.Helper()
	return service.New(name, append(opts, service.WithLogger(bustest.Logger(t)))...)
}

// result makes a call and returns the JSON of its result.
func (c *client) result(req *busv1.Request) string {
	c.t.Helper()
	frame, err := c.do(req, nil)
	if err != nil {
		c.t.Fatalf("%s %s: %v", req.Method, req.Name, err)
	}
	if frame.GetResult() == nil {
		c.t.Fatalf("%s %s: ended with %v", req.Method, req.Name, frame)
	}
	return string(frame.GetResult().GetJson())
}

// fails makes a call and requires a fault.
func (c *client) fails(req *busv1.Request, reason fault.Reason) *fault.Error {
	c.t.Helper()
	frame, err := c.do(req, nil)
	if err == nil {
		c.t.Fatalf("%s %s: %v, want %s", req.Method, req.Name, frame, reason)
	}
	f := fault.From(err)
	if f.Reason != reason {
		c.t.Fatalf("%s %s: %v, want %s", req.Method, req.Name, err, reason)
	}
	return f
}

// catalogue waits until the service announces a catalogue that ok accepts.
func (c *client) catalogue(what string, ok func(*busv1.Catalogue) bool) *busv1.Catalogue {
	c.t.Helper()
	var last *busv1.Catalogue
	bustest.Eventually(c.t, what, func() bool {
		for _, s := range c.watch.Services() {
			last = s.Catalogue
			if ok(s.Catalogue) {
				return true
			}
		}
		return false
	})
	return last
}

// same requires that two JSON texts are equal to the byte.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n got %s\nwant %s", what, got, want)
	}
}
