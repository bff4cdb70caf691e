package matrix

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
)

// Transports.
const (
	streamableTransport = "streamable"
	sseTransport        = "sse"
	stdioTransport      = "stdio"
)

// client is the official Go SDK's client, with a tap between it and the edges. The SDK proves that
// a client receives a message, the tap that it has the form of its version.
type client struct {
	*sdk.ClientSession
	t         *testing.T
	transport string
	// version is the one the client asked for, once connected the one agreed on.
	version string
	tap     *tap

	tools, prompts chan struct{}
	updated        chan string
	progress       chan *sdk.ProgressNotificationParams
	logs           chan *sdk.LoggingMessageParams

	ending sync.Once
	close  func()
}

func (c *client) modern() bool { return c.version == mcp.Modern }

// http reports whether two edges serve the client in turn.
func (c *client) http() bool { return c.transport != stdioTransport }

// connect connects a client that can do all that its version has, and waits
// until it is told of changes.
func (w *world) connect(t *testing.T, version, transport string) *client {
	t.Helper()
	return w.connectAgain(t, version, transport, 10)
}

// connectAgain connects as a new client, so often again, where NATS is not heard.
func (w *world) connectAgain(t *testing.T, version, transport string, again int) *client {
	t.Helper()
	c := &client{
		t: t, version: version, transport: transport, tap: &tap{t: t},
		tools: make(chan struct{}, 64), prompts: make(chan struct{}, 64), updated: make(chan string, 64),
		progress: make(chan *sdk.ProgressNotificationParams, 64), logs: make(chan *sdk.LoggingMessageParams, 64),
	}
	serve := w.serveStdio
	if c.http() {
		serve = w.serveHTTP
	}
	over, stopped := serve(c)
	client := sdk.NewClient(&sdk.Implementation{Name: "matrix", Version: "1.0.0"}, c.options())
	client.AddRoots(&sdk.Root{Name: "home", URI: "file:///home"})
	session, err := client.Connect(t.Context(), over, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil && again > 0 && bustest.StoodStill(err.Error()) {
		stopped()
		return w.connectAgain(t, version, transport, again-1)
	}
	if err != nil {
		stopped()
		t.Fatalf("connect: %v", err)
	}
	c.ClientSession, c.version = session, session.InitializeResult().ProtocolVersion
	c.close = func() {
		_ = session.Close()
		stopped()
	}
	t.Cleanup(c.end)
	c.listens()
	return c
}

// end ends the client and waits until nothing of it runs at the edges: the tap
// has all messages then.
func (c *client) end() { c.ending.Do(c.close) }

func (c *client) options() *sdk.ClientOptions {
	o := &sdk.ClientOptions{
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { c.tools <- struct{}{} },
		PromptListChangedHandler:    func(context.Context, *sdk.PromptListChangedRequest) { c.prompts <- struct{}{} },
		ResourceUpdatedHandler:      func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { c.updated <- r.Params.URI },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { c.progress <- r.Params },
		LoggingMessageHandler:       func(_ context.Context, r *sdk.LoggingMessageRequest) { c.logs <- r.Params },
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Role: "assistant", Model: "model", Content: &sdk.TextContent{Text: "Hello!"}}, nil
		},
	}
	if c.version >= mcp.V20250618 { // which brought elicitation
		o.ElicitationHandler = func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		}
	}
	return o
}

// listens waits for the client's stream of changes: a GET before 2026-07-28,
// subscriptions/listen since. Elsewhere the connection is that stream.
func (c *client) listens() {
	c.t.Helper()
	switch {
	case c.modern():
		c.tap.await("the acknowledgement", said(mcp.NotifyAcknowledged))
	case c.transport == streamableTransport:
		bustest.Eventually(c.t, "the client's GET is answered", func() bool { return c.tap.answered(http.MethodGet) })
	}
}

// serveHTTP puts the edges behind a load balancer of the client's own: its
// connections reach them strictly in turn, and each request has its own.
func (w *world) serveHTTP(c *client) (over sdk.Transport, stopped func()) {
	var servers []*httptest.Server
	var addresses []string
	for i, e := range w.edges {
		srv := httptest.NewServer(c.tap.before(i, e))
		servers, addresses = append(servers, srv), append(addresses, srv.Listener.Addr().String())
	}
	balancer := roundRobin(c.t, addresses)
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	stopped = func() {
		for _, srv := range servers {
			if c.t.Failed() {
				_ = srv.Config.Close() // what went wrong may hang for minutes
				continue
			}
			srv.Close()
		}
	}
	if c.transport == sseTransport {
		return &sdk.SSEClientTransport{Endpoint: "http://" + balancer + "/sse", HTTPClient: h}, stopped
	}
	return &sdk.StreamableClientTransport{Endpoint: "http://" + balancer + "/mcp", HTTPClient: h}, stopped
}

// serveStdio is the bus side of "busbar stdio": an edge of the client's own
// behind pipes.
func (w *world) serveStdio(c *client) (over sdk.Transport, stopped func()) {
	e := w.join(c.t)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	x := &exchange{}
	d := stdio.New(stdio.Config{
		Server: e.Server(),
		In:     io.TeeReader(stdin, c.tap.lines(x, false)),
		Out:    io.MultiWriter(c.tap.lines(x, true), stdout),
	})
	done := make(chan error, 1)
	go func() {
		err := d.Run(context.Background())
		_, _ = stdin.Close(), stdout.Close()
		done <- err
	}()
	stopped = func() {
		_ = in.Close()
		receive(c.t, "the end of the door", done) // its error is that the client is gone
	}
	return &sdk.IOTransport{Reader: out, Writer: in}, stopped
}

// call calls a tool that must not fail.
func (c *client) call(tool string, arguments any) string {
	c.t.Helper()
	return c.callWith(&sdk.CallToolParams{Name: tool, Arguments: arguments})
}

func (c *client) callWith(params *sdk.CallToolParams) string {
	c.t.Helper()
	r, err := c.CallTool(soon(c.t), params)
	if err != nil {
		c.t.Fatalf("%s: %v", params.Name, err)
	}
	if r.IsError || len(r.Content) != 1 {
		c.t.Fatalf("%s: %+v", params.Name, r)
	}
	said, _ := r.Content[0].(*sdk.TextContent)
	return said.Text
}

// alternates requires of two messages over HTTP that two edges took them.
func (c *client) alternates(what string, a, b message) {
	c.t.Helper()
	if c.http() && a.on.edge == b.on.edge {
		c.t.Errorf("%s came to the same edge", what)
	}
}

// ownStream requires that m came where messages of request r belong: over Streamable HTTP in r's
// response, over other transports on the connection's one stream.
func (c *client) ownStream(m, r message) {
	c.t.Helper()
	switch {
	case c.transport == sseTransport && m.on.about != http.MethodGet,
		c.transport != sseTransport && m.on != r.on:
		c.t.Errorf("%s came on %s", m.Method, m.on.about)
	}
}

// refusal is the JSON-RPC error in an error of the SDK's.
func refusal(t *testing.T, err error) *jsonrpc.Error {
	t.Helper()
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		t.Fatalf("no JSON-RPC error: %v", err)
	}
	return wire
}

// refused requires an error's code and reason.
func refused(t *testing.T, err error, code int, reason string) {
	t.Helper()
	if wire := refusal(t, err); wire.Code != int64(code) || !strings.Contains(string(wire.Data), `"reason":"`+reason+`"`) {
		t.Errorf("refused with %d %s %s, want %d %s", wire.Code, wire.Message, wire.Data, code, reason)
	}
}

// answerTime is how long anything may take.
const answerTime = time.Minute

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	t.Cleanup(cancel)
	return ctx
}

func receive[V any](t *testing.T, what string, from <-chan V) V {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(answerTime):
		t.Fatalf("did not happen in %v: %s", answerTime, what)
	}
	panic("unreachable")
}
