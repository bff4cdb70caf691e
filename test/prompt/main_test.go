// Package prompt tests the prompt service as modern and legacy clients meet it: behind an edge,
// with several instances on one database of either engine.
package prompt

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/prompt"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// onBoth runs a test on both engines.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for name, config := range map[string]func(t *testing.T) prompt.Env{
		"postgres": func(t *testing.T) prompt.Env {
			return prompt.Env{DataEnv: service.DataEnv{DatabaseURL: databasetest.Postgres(t)}}
		},
		"sqlite": func(t *testing.T) prompt.Env {
			return prompt.Env{DataEnv: service.DataEnv{DataDir: filepath.Join(t.TempDir(), "data")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{bus: bustest.Server(t), config: config(t)}
			// So long that what is seen was heard.
			w.config.Reread, w.config.Log = time.Hour, bustest.Logger(t)
			test(t, w)
		})
	}
}

type world struct {
	bus    string
	config prompt.Env
}

// build makes another instance.
func (w *world) build(t *testing.T) (s *service.Service) {
	t.Helper()
	if err := bustest.Heard(t, func() (err error) {
		s, err = prompt.New(t.Context(), w.config)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// instance puts another instance on the bus until stop is called.
func (w *world) instance(t *testing.T) (stop func()) {
	t.Helper()
	s := w.build(t)
	running, err := s.Start(t.Context(), bustest.Connect(t, w.bus))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
			defer cancel()
			if err := running.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// edge returns the URL of another edge.
func (w *world) edge(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Join(t, w.bus), edge.Config{Version: "1", Logger: bustest.Logger(t), Audit: edge.Audit{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "prompt"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	t.Cleanup(e.Server().Close)
	return srv.URL + "/mcp"
}

// A modern and a legacy version.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

type client struct {
	*mcp.ClientSession
	changed chan struct{}
}

// connect connects the official client, and returns once it hears of changes.
func connect(t *testing.T, url, version string) *client {
	t.Helper()
	c := &client{changed: make(chan struct{}, 64)}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { c.changed <- struct{}{} },
	})
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	hears := &hears{opened: make(chan struct{})}
	var session *mcp.ClientSession
	var err error
	err = bustest.Heard(t, func() error {
		session, err = sdk.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: hears}}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	c.ClientSession = session
	receive(t, "the stream of notifications", hears.opened)
	return c
}

// hears sees when the edge has accepted the stream of notifications.
type hears struct {
	opened chan struct{}
	once   sync.Once
}

func (h *hears) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK && (r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen") {
		h.once.Do(func() { close(h.opened) })
	}
	return resp, err
}

func receive(t *testing.T, what string, from <-chan struct{}) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
	}
}

// call calls a tool with arguments in JSON and reads its structured result.
func (c *client) call(t *testing.T, tool, arguments, key string) (map[string]any, error) {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}
	if key != "" {
		params.Meta = mcp.Meta{"io.github.busbar-mcp/idempotencyKey": key}
	}
	var r *mcp.CallToolResult
	var err error
	err = bustest.Heard(t, func() error { // with a key it looks for an earlier call
		r, err = c.CallTool(t.Context(), params)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.IsError {
		return nil, errors.New(r.Content[0].(*mcp.TextContent).Text)
	}
	return r.StructuredContent.(map[string]any), nil
}

// do is call for calls that must not fail.
func (c *client) do(t *testing.T, tool, arguments string) map[string]any {
	t.Helper()
	r, err := c.call(t, tool, arguments, "")
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return r
}

// get is prompts/get; the texts of its messages.
func (c *client) get(t *testing.T, name string, arguments map[string]string) ([]string, error) {
	t.Helper()
	var r *mcp.GetPromptResult
	err := bustest.Heard(t, func() (err error) {
		r, err = c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: arguments})
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range r.Messages {
		if text, ok := m.Content.(*mcp.TextContent); ok {
			all = append(all, string(m.Role)+": "+text.Text)
		} else {
			all = append(all, string(m.Role))
		}
	}
	return all, nil
}

// refused requires the code of a JSON-RPC error.
func refused(t *testing.T, err error, code int64) *jsonrpc.Error {
	t.Helper()
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != code {
		t.Fatalf("%v; want error %d", err, code)
	}
	return wire
}
