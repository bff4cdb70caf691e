package doors

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	restdoor "github.com/busbar-mcp/busbar/services/edge/door/rest"
)

// open are the paths that anybody may ask, with why.
var open = map[string]string{
	"/healthz": "says that the process runs, for who watches it",
	"/readyz":  "says whether the edge can serve, for who watches it",
}

// request is one way in over HTTP.
type request struct {
	method, path, body string
	header             map[string]string
}

// everyRequest returns all routes of the edge: plain HTTP's from its description, and the other
// doors'.
func everyRequest(t *testing.T) (all []request) {
	t.Helper()
	raw, err := os.ReadFile("../../services/edge/door/rest/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(raw, &described); err != nil {
		t.Fatal(err)
	}
	roots := map[string]bool{}
	for path, methods := range described.Paths {
		root, _, _ := strings.Cut(path[1:], "/")
		roots[root] = true
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if _, ok := methods[method]; ok {
				all = append(all, request{method: strings.ToUpper(method), path: strings.NewReplacer("{name}", "look", "{uri}", "x%3Ay", "{id}", "x", "{toolset}", "x").Replace(path), body: `{}`})
			}
		}
	}
	for _, root := range restdoor.Roots {
		if !roots[root] {
			t.Errorf("openapi.json lacks /%s", root)
		}
	}
	events := map[string]string{"Accept": "text/event-stream"}
	socket := func(protocol string) map[string]string {
		return map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": protocol}
	}
	return append(all,
		request{"POST", "/mcp", initialize("2025-06-18"), nil}, request{"POST", "/mcp", "no json", nil}, request{"POST", "/mcp", "[]", nil},
		request{"POST", "/mcp", modern("tools/list", `"x":1`), nil}, request{"POST", "/mcp", `{"jsonrpc":"2.0","id":"a.b","result":{}}`, nil},
		request{"POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, nil},
		request{"GET", "/mcp", "", events}, request{"DELETE", "/mcp", "", map[string]string{"Mcp-Session-Id": "x"}},
		request{"GET", "/sse", "", events}, request{"POST", "/messages?sessionId=a.b", `{}`, nil},
		request{"POST", "/v1", `{"version":"1.0","action":{"name":"look"}}`, nil}, request{"POST", "/v1", `[]`, nil},
		request{"POST", "/graphql", `{"query":"{getTools{name}}"}`, nil}, request{"GET", "/graphql", "", socket("graphql-transport-ws")},
		request{"GET", "/access/limits", "", nil},
		request{"GET", "/ws", "", socket("mcp")}, request{"GET", "/ws", "", socket("busbar")}, request{"GET", "/ws", "", socket("")},
	)
}

// Nobody gets anything but a challenge, at any way in.
func TestH3NobodyGetsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range everyRequest(t) {
		for _, authorization := range []string{"", "Bearer " + nobody, "Basic YWRhOmFkYQ==", "Bearer"} {
			t.Run(r.method+" "+r.path+" "+authorization, func(t *testing.T) {
				got, body := w.try(t, r, authorization)
				if got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" || strings.Contains(body, "look") {
					t.Errorf("%s %v %.200s", got.Status, got.Header, body)
				}
			})
		}
	}
	for path, why := range open {
		if got, body := w.try(t, request{method: "GET", path: path}, ""); got.StatusCode != http.StatusOK || strings.Contains(body, serviceName) {
			t.Errorf("%s %s: %s, %s", path, why, got.Status, body)
		}
	}
	for _, path := range []string{"/audit/list", "/audit/show?id=x", "/audit/verify", "/access/limits?as=ada"} {
		if got, body := w.try(t, request{method: "GET", path: path, header: map[string]string{"Busbar-Audit": "x"}}, ""); got.StatusCode != http.StatusForbidden && got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s %s", path, got.Status, body)
		}
	}
	for _, token := range []string{"", nobody} {
		for _, m := range slices.Concat(methodsOf(gatewayv1.GatewayService_ServiceDesc), streamsOf(gatewayv1.GatewayService_ServiceDesc)) {
			t.Run("gRPC "+m+" "+token, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), answerTime)
				defer cancel()
				if token != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
				}
				stream, err := w.conn.NewStream(ctx, &rpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+gatewayv1.GatewayService_ServiceDesc.ServiceName+"/"+m)
				if err == nil {
					_ = stream.SendMsg(&emptypb.Empty{}) // the answer says why not
					_ = stream.CloseSend()
					err = stream.RecvMsg(&emptypb.Empty{})
				}
				if rpcstatus.Code(err) != codes.Unauthenticated {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

func methodsOf(d rpc.ServiceDesc) (names []string) {
	for _, m := range d.Methods {
		names = append(names, m.MethodName)
	}
	return names
}

func streamsOf(d rpc.ServiceDesc) (names []string) {
	for _, s := range d.Streams {
		names = append(names, s.StreamName)
	}
	return names
}

// try makes a request and reads its answer.
func (w *world) try(t *testing.T, r request, authorization string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	in, err := http.NewRequestWithContext(ctx, r.method, "http://"+w.host+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.body != "" {
		in.Header.Set("Content-Type", "application/json")
		in.Header.Set("Accept", bothForms)
	}
	if authorization != "" {
		in.Header.Set("Authorization", authorization)
	}
	for name, v := range r.header {
		in.Header.Set(name, v)
	}
	resp, err := w.client.Do(in)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}
