package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// headers are all ways in which a client shows secrets, good and bad.
func (f *fleetOfCanaries) headers() (all []http.Header) {
	c := f.credentials
	for _, name := range []string{"good token", "API key", "expired token", "stranger's token", "opaque token", "bad key", "bound token"} {
		all = append(all, http.Header{"Authorization": {"Bearer " + c[name]}})
	}
	return append(all,
		http.Header{"Authorization": {"DPoP " + c["bound token"]}, "Dpop": {c["proof"]}},
		http.Header{"Authorization": {"Basic " + c["password"]}},
		http.Header{"Authorization": {c["password"], "Bearer " + c["good token"]}},
		http.Header{"Authorization": {c["good token"]}},
		http.Header{"Authorization": {"Bearer " + c["API key"] + ", " + c["API key"]}},
		http.Header{"X-Custom-Auth": {c["API key"]}},
		http.Header{"X-Custom-Auth": {c["custom"]}},
		http.Header{"Authorization": {"Bearer " + c["good token"]}, "Cookie": {"session=" + c["cookie"]}, "X-Api-Key": {c["x-api-key"]}, "Baggage": {"k=" + c["baggage"]}},
		http.Header{"Cookie": {"session=" + c["cookie"]}},
	)
}

// requests are made at all doors; arguments are the parameters of a tool that fails.
func (f *fleetOfCanaries) requests(tool, arguments string) (all []*http.Request) {
	post := func(path, body string, headers ...string) {
		r, _ := http.NewRequest(http.MethodPost, "https://"+f.http+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		all = append(all, r)
	}
	get := func(path string) {
		r, _ := http.NewRequest(http.MethodGet, "https://"+f.http+path, nil)
		all = append(all, r)
	}
	post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"`+modern+
		`","io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", tool)
	post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`)
	post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"`)
	post("/tools/"+tool, arguments)
	post("/v1", `{"version":"1.0","action":{"name":"`+tool+`","parameters":`+arguments+`}}`)
	post("/graphql", `{"query":"mutation($p: JSON){executeTool(input:{name:\"`+tool+`\",parameters:$p}){content{text}}}","variables":{"p":`+arguments+`}}`)
	post("/messages?session=x", `{}`)
	get("/tools?access_token=" + f.credentials["query"])
	get("/tools")
	get("/access/limits")
	get("/audit/list")
	get("/.well-known/oauth-protected-resource/mcp")
	return all
}

var networks struct {
	sync.Mutex
	n int
}

// send makes a request, each from another network, since bad credentials are limited
// by where they come from.
func (f *fleetOfCanaries) send(t *testing.T, r *http.Request, h http.Header) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	r = r.Clone(ctx)
	for name, values := range h {
		r.Header[name] = values
	}
	f.elsewhere(r.Header)
	resp, err := f.secure.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, fmt.Sprint(string(raw), resp.Header)
}

func (f *fleetOfCanaries) elsewhere(h http.Header) {
	networks.Lock()
	defer networks.Unlock()
	networks.n++
	h.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.1", networks.n>>8, networks.n&255))
}

// socket opens a WebSocket, sends something wrong, and returns the messages.
func (f *fleetOfCanaries) socket(t *testing.T, h http.Header) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	h = h.Clone()
	f.elsewhere(h)
	ws, resp, err := websocket.Dial(ctx, "wss://"+f.http+"/ws", &websocket.DialOptions{HTTPClient: f.secure, HTTPHeader: h})
	if err != nil {
		said := err.Error()
		if resp != nil && resp.Body != nil {
			raw, _ := io.ReadAll(resp.Body)
			said += string(raw) + fmt.Sprint(resp.Header)
		}
		return said
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"type":"tool_request","id":"1","data":{"name":"no_such_tool","parameters":{}}}`)); err != nil {
		return err.Error()
	}
	_, raw, err := ws.Read(ctx)
	return fmt.Sprint(string(raw), err)
}

// call calls over gRPC, and returns the messages.
func (f *fleetOfCanaries) call(t *testing.T, h http.Header) string {
	t.Helper()
	conn, err := rpc.NewClient(f.grpc, rpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: f.roots})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	h = h.Clone()
	f.elsewhere(h)
	md := metadata.MD{}
	for name, values := range h {
		md.Append(strings.ToLower(name), values...)
	}
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), md), bustest.Patience)
	defer cancel()
	var trailer metadata.MD
	_, err = gatewayv1.NewGatewayServiceClient(conn).CallTool(ctx, &gatewayv1.CallToolRequest{Name: "no_such_tool"}, rpc.Trailer(&trailer))
	return fmt.Sprint(err, trailer)
}
