package access

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// answer is the answer of a door.
type answer struct {
	status    int
	challenge string
	body      string
}

// door is a way in, for a version of the specification where there is one.
type door struct {
	name, method, path string
	headers            http.Header
	body               string
	// says is false for an answer that does not name the caller.
	says bool
	send func(ctx context.Context, w *world, d *door, h http.Header) (answer, error)
}

func (d *door) url(w *world) string {
	if d.name == "gRPC" {
		return "http://" + w.target + d.path
	}
	return "http://" + w.host + d.path
}

const modernMeta = `"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientInfo +
	`":{"name":"access","version":"1"},"` + mcp.MetaClientCapabilities + `":{}}`

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"access","version":"1"}}}`
}

var doors = []*door{
	{
		name: "MCP 2026-07-28", method: "POST", path: "/mcp", says: true, send: overHTTP,
		headers: http.Header{"Mcp-Protocol-Version": {mcp.Modern}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"whoami"}},
		body:    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{},` + modernMeta + `}}`,
	},
	{name: "MCP 2025-11-25", method: "POST", path: "/mcp", body: initialize(mcp.V20251125), send: overHTTP},
	{name: "MCP 2025-06-18", method: "POST", path: "/mcp", body: initialize(mcp.V20250618), send: overHTTP},
	{name: "SSE 2024-11-05", method: "GET", path: "/sse", send: overHTTP},
	{name: "REST", method: "POST", path: "/tools/whoami", body: `{}`, says: true, send: overHTTP},
	{name: "REST list", method: "GET", path: "/tools", send: overHTTP},
	{name: "envelope", method: "POST", path: "/v1", body: `{"version":"1.0","action":{"name":"whoami","parameters":{}}}`, says: true, send: overHTTP},
	{name: "GraphQL", method: "POST", path: "/graphql", body: `{"query":"mutation{executeTool(input:{name:\"whoami\"}){content{text}}}"}`, says: true, send: overHTTP},
	{name: "WebSocket", method: "GET", path: "/ws", send: overWebSocket},
	{name: "gRPC", method: "POST", path: gatewayv1.GatewayService_CallTool_FullMethodName, says: true, send: overGRPC},
}

func overHTTP(ctx context.Context, w *world, d *door, h http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, d.method, d.url(w), strings.NewReader(d.body))
	if err != nil {
		return answer{}, err
	}
	r.Header = h.Clone()
	if d.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if d.path == "/mcp" {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for name, v := range d.headers {
		r.Header[name] = v
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{status: resp.StatusCode, challenge: strings.Join(resp.Header.Values("WWW-Authenticate"), " | ")}
	if d.path == "/sse" && a.status == http.StatusOK {
		return a, nil // a stream, which has no end
	}
	body, err := io.ReadAll(resp.Body)
	a.body = string(body)
	return a, err
}

func overWebSocket(ctx context.Context, w *world, d *door, h http.Header) (answer, error) {
	c, resp, err := websocket.Dial(ctx, d.url(w), &websocket.DialOptions{HTTPClient: w.client, HTTPHeader: h.Clone()})
	if resp == nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, challenge: strings.Join(resp.Header.Values("WWW-Authenticate"), " | ")}
	if err == nil {
		a.status = http.StatusOK
		return a, c.CloseNow()
	}
	body, err := io.ReadAll(resp.Body)
	a.body = string(body)
	return a, err
}

var statusOf = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.NotFound: 404, codes.Unavailable: 503,
}

func overGRPC(ctx context.Context, w *world, _ *door, h http.Header) (answer, error) {
	md := metadata.MD{}
	for name, values := range h {
		md.Append(strings.ToLower(name), values...)
	}
	stream, err := w.grpc.CallTool(metadata.NewOutgoingContext(ctx, md), &gatewayv1.CallToolRequest{Name: "whoami"})
	if err != nil {
		return answer{}, err
	}
	var a answer
	for {
		part, err := stream.Recv()
		if err == nil {
			a.body += part.String()
			continue
		}
		if !errors.Is(err, io.EOF) {
			a.status, a.body = statusOf[status.Code(err)], status.Convert(err).Message()
		} else {
			a.status = http.StatusOK
		}
		break
	}
	header, _ := stream.Header()
	a.challenge = strings.Join(append(header.Get("www-authenticate"), stream.Trailer().Get("www-authenticate")...), " | ")
	return a, nil
}

// heard sends a request again if NATS stood still meanwhile. It may also repeat whoami if its
// instance was silent for longer.
func (d *door) heard(ctx context.Context, t *testing.T, w *world, show func() http.Header) (a answer, err error) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		a, err = d.send(ctx, w, d, show())
		return err != nil || !bustest.StoodStill(a.body) && !strings.Contains(a.body, "stopped answering")
	})
	return a, err
}

// try shows something at a door and checks the answer.
func (w *world) try(t *testing.T, d *door, h http.Header, want outcome, who string) {
	t.Helper()
	w.tryShowing(t, d, func() http.Header { return h }, want, who)
}

// tryShowing is try with headers that are good for one request.
func (w *world) tryShowing(t *testing.T, d *door, show func() http.Header, want outcome, who string) {
	t.Helper()
	var h http.Header
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	got, err := d.heard(ctx, t, w, func() http.Header {
		h = show()
		return h
	})
	if err != nil {
		t.Errorf("%s: %v", d.name, err)
		return
	}
	if d.name == "GraphQL" && want.status == http.StatusForbidden {
		// The request is good, one of its fields is not: that is told beside the data.
		if got.status != http.StatusOK || !strings.Contains(got.body, `"FORBIDDEN"`) || !strings.Contains(got.body, `"scope":"mcp:call"`) {
			t.Errorf("%s: %d %s", d.name, got.status, got.body)
		}
		return
	}
	if got.status != want.status || got.challenge != want.challenge {
		t.Errorf("%s: %d %s\nwant %d %s\n%.300s", d.name, got.status, got.challenge, want.status, want.challenge, got.body)
	}
	if d.says && want == good && !strings.Contains(got.body, "you are "+who+".") {
		t.Errorf("%s: not %s: %.300s", d.name, who, got.body)
	}
	for _, v := range h["Authorization"] {
		if _, secret, _ := strings.Cut(v, " "); len(secret) > 20 && strings.Contains(got.body, secret) {
			t.Errorf("%s: what was shown is in the answer", d.name)
		}
	}
}
