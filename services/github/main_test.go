package github_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/github"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// canary is the token of the tests; it must appear only at the fake GitHub.
const canary = "ghp_canary0123456789"

// callTime is the time limit of calls that should succeed.
const callTime = 20 * time.Second

// client calls the service over the bus, the way an edge does.
type client struct {
	t        testing.TB
	caller   *bus.Caller
	registry *registry.Registry
	log      *bustest.Log
}

// start puts the service on a new bus, with the API at the configured URL.
func start(t testing.TB, config github.Env) *client {
	t.Helper()
	log := &bustest.Log{}
	config.Log = slog.New(slog.NewTextHandler(log, nil))
	if config.Transport == nil {
		transport := fetch.Transport(limit.Header)
		config.Transport = transport
		t.Cleanup(transport.CloseIdleConnections)
	}
	nats := bustest.Server(t)
	config.Version = "1.2.3"
	s, err := github.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	running, err := s.Start(t.Context(), bustest.Connect(t, nats))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), config.Token) && config.Token != "" {
			t.Errorf("the token is in the log:\n%s", log)
		}
		if at, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(config.URL, "http://"), "https://"), "/"); at != "" && strings.Contains(log.String(), at) {
			t.Errorf("GitHub's address is in the log:\n%s", log)
		}
	})
	conn := bustest.Connect(t, nats)
	c := &client{t: t, log: log}
	if c.caller, err = bus.NewCaller(conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.caller.Close() })
	if c.registry, err = registry.Watch(t.Context(), conn, func([]registry.Service) {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.registry.Close)
	return c
}

// result is a tool's answer.
type result struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured jsontext.Value `json:"structuredContent"`
	IsError    bool           `json:"isError"`
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// as makes a call for a principal within a time.
func (c *client) as(principal string, timeout time.Duration, tool, arguments string) result {
	c.t.Helper()
	r, err := c.try(principal, timeout, tool, arguments)
	if err != nil {
		c.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return r
}

func (c *client) try(principal string, timeout time.Duration, tool, arguments string) (r result, err error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), timeout)
	defer cancel()
	frame, err := c.caller.Call(ctx, "github", &busv1.Request{
		Method: "tools/call", Name: tool, Arguments: []byte(arguments), Identity: &busv1.Identity{Principal: principal, Tenant: "acme"},
	}, nil)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(frame.GetResult().GetJson(), &r); err != nil {
		c.t.Fatal(err)
	}
	if out := string(frame.GetResult().GetJson()); strings.Contains(out, canary) || r.IsError && (strings.Contains(out, "127.0.0.1") || strings.Contains(out, "goroutine")) {
		c.t.Errorf("%s %s tells a secret: %s", tool, arguments, out)
	}
	return r, nil
}

// call makes a call that has to succeed, and returns its structured content.
func (c *client) call(tool, arguments string) string {
	c.t.Helper()
	r := c.as("ada", callTime, tool, arguments)
	if r.IsError {
		c.t.Fatalf("%s %s: %s", tool, arguments, r.text())
	}
	return string(r.Structured)
}

// fails makes a call that must fail with a text of this kind that contains the words.
func (c *client) fails(tool, arguments, kind string, words ...string) string {
	c.t.Helper()
	r := c.as("ada", callTime, tool, arguments)
	if !r.IsError || !strings.HasPrefix(r.text(), kind+": ") {
		c.t.Errorf("%s %s: got %s, want %s", tool, arguments, r.text(), kind)
	}
	for _, w := range words {
		if !strings.Contains(r.text(), w) {
			c.t.Errorf("%s %s: %q does not say %q", tool, arguments, r.text(), w)
		}
	}
	return r.text()
}
