package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// users are who their tokens say.
type users struct{}

func (users) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no token")
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme"}, nil
}

// bearer is a transport with a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// join adds an edge to a bus, with HTTP in front.
func join(t *testing.T, bus string, cfg edge.Config) (*edge.Edge, string) {
	t.Helper()
	cfg.Version, cfg.Logger = "1", bustest.Logger(t)
	e, err := edge.New(t.Context(), bustest.Connect(t, bus), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	t.Cleanup(e.Server().Close)
	return e, srv.URL
}

// lender is the official client with a model. asked counts what it was asked.
func lender(t *testing.T, over sdk.Transport, version string) (asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	c := sdk.NewClient(&sdk.Implementation{Name: "lender", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			asked.Add(1)
			said, _ := r.Params.Messages[0].Content.(*sdk.TextContent)
			if said == nil || said.Text != "Что такое MCP?" || r.Params.MaxTokens != 100 || r.Params.Temperature != 0.7 {
				t.Errorf("asked %+v", r.Params)
			}
			return &sdk.CreateMessageResult{Role: "assistant", Model: "lent", Content: &sdk.TextContent{Text: "Протокол."}}, nil
		},
	})
	session, err := c.Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return asked
}

// borrow asks over plain HTTP.
func borrow(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/sampling", strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := bearer(token).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

const lent = `{"content":{"type":"text","text":"Протокол."},"model":"lent","role":"assistant"}`

// borrows waits until a model is lent.
func borrows(t *testing.T, url, token string) {
	t.Helper()
	bustest.Eventually(t, "a model is lent", func() bool {
		status, body := borrow(t, url, token)
		if status == http.StatusOK && body != lent || status != http.StatusOK && !strings.Contains(body, "No model is configured") {
			t.Fatalf("%d %s", status, body)
		}
		return status == http.StatusOK
	})
}

// The official client lends its model over every transport of the legacy era.
func TestLending(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ transport, version string }{
		{"streamable", mcp.V20250326}, {"streamable", mcp.V20250618}, {"streamable", mcp.V20251125},
		{"sse", mcp.V20241105}, {"stdio", mcp.V20250618}, {"stdio", mcp.V20251125},
	} {
		t.Run(c.transport+" "+c.version, func(t *testing.T) {
			t.Parallel()
			bus := bustest.Server(t)
			_, caller := join(t, bus, edge.Config{LendClientModels: true})
			e, url := join(t, bus, edge.Config{LendClientModels: true})
			asked := lender(t, over(t, c.transport, e, url), c.version)
			borrows(t, caller, "")
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// over is a transport to an edge.
func over(t *testing.T, transport string, e *edge.Edge, url string) sdk.Transport {
	switch transport {
	case "streamable":
		return &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}
	case "sse":
		return &sdk.SSEClientTransport{Endpoint: url + "/sse"}
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = stdio.New(stdio.Config{Server: e.Server(), In: stdin, Out: stdout}).Run(context.Background())
		_ = stdout.Close()
	}()
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the door does not end with its client")
		}
	})
	return &sdk.IOTransport{Reader: out, Writer: in}
}

// A client says no, and what it says reaches the caller.
func TestLenderFails(t *testing.T) {
	t.Parallel()
	bus := bustest.Server(t)
	_, url := join(t, bus, edge.Config{LendClientModels: true})
	c := sdk.NewClient(&sdk.Implementation{Name: "lender", Version: "1"}, &sdk.ClientOptions{
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return nil, errors.New("not today")
		},
	})
	session, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: mcp.V20251125})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	bustest.Eventually(t, "the client answers", func() bool {
		status, body := borrow(t, url, "")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "not today") && strings.Contains(body, `"executed":"unknown"`)
	})
}

// A principal's clients are asked for its own callers, and no others.
func TestLendingToOneself(t *testing.T) {
	t.Parallel()
	bus := bustest.Server(t)
	_, caller := join(t, bus, edge.Config{Authenticator: users{}})
	_, url := join(t, bus, edge.Config{Authenticator: users{}})
	asked := map[string]*atomic.Int32{}
	for _, name := range []string{"ada", "bob"} {
		asked[name] = lender(t, &sdk.StreamableClientTransport{
			Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer(name)},
		}, mcp.V20251125)
	}
	borrows(t, caller, "ada")
	if status, body := borrow(t, caller, "eve"); status != http.StatusServiceUnavailable || !strings.Contains(body, "No model is configured") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := borrow(t, caller, ""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, body)
	}
	if a, b := asked["ada"].Load(), asked["bob"].Load(); a != 1 || b != 0 {
		t.Errorf("ada was asked %d times, bob %d times", a, b)
	}
	borrows(t, caller, "bob") // who could have been asked
}

// The anonymous principal is everybody: both edges have to agree. A client of
// 2026-07-28 cannot be asked.
func TestNobodyLends(t *testing.T) {
	t.Parallel()
	bus := bustest.Server(t)
	_, open := join(t, bus, edge.Config{LendClientModels: true})
	_, closed := join(t, bus, edge.Config{})
	refused := func(url, want string) {
		t.Helper()
		if status, body := borrow(t, url, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "BUSBAR_MODEL_PROVIDER") ||
			!strings.Contains(body, want) || !strings.Contains(body, `"executed":"no"`) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	lender(t, &sdk.StreamableClientTransport{Endpoint: open + "/mcp"}, mcp.Modern)
	unasked := lender(t, &sdk.StreamableClientTransport{Endpoint: closed + "/mcp"}, mcp.V20251125)
	refused(open, "connect an MCP client")
	refused(closed, "--lend-client-models")
	lender(t, &sdk.StreamableClientTransport{Endpoint: open + "/mcp"}, mcp.V20251125)
	for range 8 {
		borrows(t, open, "")
	}
	refused(closed, "--lend-client-models")
	if n := unasked.Load(); n != 0 {
		t.Errorf("a client was asked %d times at an edge that does not lend", n)
	}
}
