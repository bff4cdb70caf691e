package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// Protocol versions that the tests speak: one modern, one legacy.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// client is the official Go SDK's client on one transport, modern or legacy.
type client struct {
	*mcp.ClientSession
	changed  chan struct{} // tools/list_changed
	progress chan *mcp.ProgressNotificationParams
	// listens is closed when the stream of notifications is open.
	listens chan struct{}
}

// kind is a transport, modern or legacy.
type kind struct{ transport, version string }

func (k kind) String() string { return k.transport + " " + k.version }

var kinds = []kind{{"http", modern}, {"http", legacy}, {"stdio", modern}, {"stdio", legacy}, {"sse", legacy}}

// place is where clients of all kinds connect: an edge's URL, and the
// arguments that make "busbar stdio" serve the same tools.
type place struct {
	url   string
	stdio []string
	// posts is another edge's URL; every second message over SSE goes there.
	posts string
}

func connect(t testing.TB, k kind, at place) *client {
	t.Helper()
	c := &client{
		changed: make(chan struct{}, 64), progress: make(chan *mcp.ProgressNotificationParams, 256), listens: make(chan struct{}),
	}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, &mcp.ClientOptions{
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress <- r.Params },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	})
	var transport mcp.Transport
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	switch k.transport {
	case "stdio":
		stderr := &bustest.Log{}
		args := append([]string{"stdio"}, at.stdio...)
		cmd := exec.Command(filepath.Join(bin, "busbar"), append(args, proof("busbar", args)...)...)
		cmd.Env, cmd.Stderr = environment(), stderr
		diesWithUs(cmd)
		transport = &mcp.CommandTransport{Command: cmd}
		close(c.listens) // one pipe: what comes before a request is done before it
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("standard error of busbar stdio, %v:\n%s", k, stderr)
			}
		})
	case "sse":
		transport = &mcp.SSEClientTransport{Endpoint: strings.TrimSuffix(at.url, "/mcp") + "/sse", HTTPClient: &http.Client{Transport: &alternate{other: at.posts}}}
		close(c.listens)
		ctx = t.Context() // the SDK ends the stream with it
	default:
		transport = &mcp.StreamableClientTransport{Endpoint: at.url, HTTPClient: &http.Client{Transport: &listenWatch{opened: c.listens}}}
	}
	var session *mcp.ClientSession
	var err error
	eventually(t, "NATS is heard", func() bool {
		session, err = sdk.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: k.version})
		return err == nil || k.transport != "http" || !bustest.StoodStill(err.Error())
	})
	if err != nil {
		t.Fatalf("connect over %v: %v", k, err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != k.version {
		t.Fatalf("connected over %v, but in version %s", k, got)
	}
	c.ClientSession = session
	select {
	case <-c.listens:
	case <-ctx.Done():
		t.Fatalf("%v: no stream of notifications", k)
	}
	return c
}

// alternate sends every second POST to another edge, if there is one.
type alternate struct {
	other string
	posts atomic.Int64
}

func (a *alternate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && a.other != "" && a.posts.Add(1)%2 == 1 {
		other, err := url.Parse(a.other)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = other.Host, other.Host
	}
	return http.DefaultTransport.RoundTrip(r)
}

// listenWatch sees when the server has accepted the stream of notifications.
type listenWatch struct {
	opened chan struct{}
	once   sync.Once
}

func (l *listenWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK && (r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen") {
		l.once.Do(func() { close(l.opened) })
	}
	return resp, err
}

// names are the tools the server lists, on all pages.
func (c *client) names(t testing.TB) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatalf("list tools: %v", err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// CallTool calls the session's CallTool, and once more if NATS was not heard.
func (c *client) CallTool(ctx context.Context, params *mcp.CallToolParams) (r *mcp.CallToolResult, err error) {
	for began := time.Now(); time.Since(began) < answerTime; {
		if r, err = c.ClientSession.CallTool(ctx, params); err == nil || !bustest.StoodStill(err.Error()) {
			break
		}
	}
	return r, err
}

// call calls a tool that must not fail.
func (c *client) call(t testing.TB, name string, arguments any) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// textOf is the first text in a result.
func textOf(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// wireError is the JSON-RPC error in an error of the SDK, or nil.
func wireError(err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire
	}
	return nil
}

// await receives one value.
func await[V any](t testing.TB, what string, from <-chan V) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(answerTime):
		t.Fatalf("did not come in %v: %s", answerTime, what)
	}
	panic("unreachable")
}
