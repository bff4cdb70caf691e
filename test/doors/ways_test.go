package doors

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door/graphql"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// TestProblems requires that every refusal over HTTP, outside MCP, GraphQL and /v1, is problem
// details that name the next step, also from the handlers in front of the doors.
func TestProblems(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	large := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	operator := map[string]string{"Busbar-Audit": operatorToken}
	text, upgrade := map[string]string{"Content-Type": "text/plain"}, map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "other"}
	for _, c := range []struct {
		request
		status int
		reason string
		allow  string
	}{
		{request{"GET", "/nothing", "", nil}, 404, "method_not_found", ""},
		{request{"GET", "/mcp/x/y", "", nil}, 404, "method_not_found", ""},
		{request{"POST", "/v2", "{}", nil}, 404, "method_not_found", ""},
		{request{"GET", "/tools/look/more/", "", nil}, 404, "unknown_tool", ""},
		{request{"GET", "/docs/nothing", "", nil}, 404, "method_not_found", ""},
		{request{"GET", "/docs/assets/nothing.js", "", nil}, 404, "method_not_found", ""},
		{request{"GET", "/toolsets/x/nothing", "", nil}, 404, "method_not_found", ""},
		{request{"GET", "/.well-known/oauth-protected-resource", "", nil}, 404, "method_not_found", ""},
		{request{"POST", "/healthz", "", nil}, 405, "method_not_found", "GET, HEAD"},
		{request{"DELETE", "/readyz", "", nil}, 405, "method_not_found", "GET, HEAD"},
		{request{"PUT", "/access/limits", "", nil}, 405, "method_not_found", "GET, HEAD"},
		{request{"PUT", "/tools", "", nil}, 405, "method_not_found", "GET"},
		{request{"PATCH", "/tools/look", "", nil}, 405, "method_not_found", "GET, POST"},
		{request{"POST", "/docs", "", nil}, 405, "method_not_found", "GET"},
		{request{"POST", "/openapi.json", "", nil}, 405, "method_not_found", "GET"},
		{request{"POST", "/audit/list", "", operator}, 405, "method_not_found", "GET"},
		{request{"GET", "/audit/nothing", "", operator}, 404, "method_not_found", ""},
		{request{"GET", "/audit/list", "", nil}, 403, "forbidden", ""},
		{request{"GET", "/audit/list?limit=x", "", operator}, 400, "invalid_params", ""},
		{request{"GET", "/access/limits?as=eve", "", nil}, 403, "forbidden", ""},
		{request{"POST", "/tools/look", large, nil}, 413, "too_large", ""},
		{request{"POST", "/tools/look", "x", text}, 415, "invalid_request", ""},
		{request{"POST", "/tools/look", "x", nil}, 400, "parse_error", ""},
		{request{"POST", "/tools/nothing", "{}", nil}, 404, "unknown_tool", ""},
		{request{"GET", "/prompts/nothing", "", nil}, 404, "unknown_prompt", ""},
		{request{"GET", "/approvals/nothing", "", nil}, 404, "unknown_approval", ""},
		{request{"GET", "/elicitations/nothing", "", nil}, 404, "unknown_elicitation", ""},
		{request{"GET", "/tools?limit=x", "", nil}, 400, "invalid_params", ""},
		{request{"GET", "/ws", "", upgrade}, 400, "invalid_request", ""},
		{request{"GET", "/graphql", "", upgrade}, 400, "invalid_request", ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			resp, body := w.try(t, c.request, "Bearer "+ada)
			var p struct {
				Type, Title, Detail, Reason, Executed, Next string
				Status                                      int
			}
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatalf("%d %v %.300s", resp.StatusCode, err, body)
			}
			if resp.StatusCode != c.status || p.Status != c.status || resp.Header.Get("Content-Type") != "application/problem+json" ||
				p.Type == "" || p.Title != http.StatusText(c.status) || p.Detail == "" || p.Reason != c.reason || p.Executed != "no" || p.Next == "" {
				t.Errorf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
			}
			if got := resp.Header.Get("Allow"); got != c.allow {
				t.Errorf("Allow: %s", got)
			}
		})
	}
	// The others have their own form, and say as much.
	for _, c := range []struct {
		request
		status int
		says   string
	}{
		{request{"PUT", "/mcp", "{}", nil}, 405, `"jsonrpc":"2.0"`},
		{request{"GET", "/mcp", "", map[string]string{"Accept": "image/png"}}, 406, `"jsonrpc":"2.0"`},
		{request{"POST", "/mcp", "{}", map[string]string{"Accept": "image/png"}}, 406, `"jsonrpc":"2.0"`},
		{request{"POST", "/mcp", "{}", text}, 415, `"jsonrpc":"2.0"`},
		{request{"DELETE", "/sse", "", nil}, 405, `"jsonrpc":"2.0"`},
		{request{"GET", "/messages", "", nil}, 405, `"jsonrpc":"2.0"`},
		{request{"PUT", "/graphql", "{}", nil}, 405, `"next":"query { __schema`},
		{request{"GET", "/v1", "", nil}, 405, `"status":"error"`},
	} {
		t.Run(c.method+" "+c.path+" in its form", func(t *testing.T) {
			t.Parallel()
			resp, body := w.try(t, c.request, "Bearer "+ada)
			if resp.StatusCode != c.status || !strings.Contains(body, c.says) || (resp.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
			}
		})
	}
}

// TestWaysOn has each door name its own way on, and asks whether what is named is there.
func TestWaysOn(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	for door, answer := range map[string]string{
		"GET /tools lists":        w.read(ctx, t, "/tools/nothing"),
		"getTools lists":          posted("/graphql", `{"query":"mutation{executeTool(input:{name:\"nothing\"}){is_error}}"}`)(ctx, t, w, ""),
		"tools/list lists":        posted("/mcp", legacyMessage("tools/call", `"name":"nothing"`))(ctx, t, w, ""),
		"tool_request":            overSocket("/ws", "busbar", `{"type":"nothing","id":1}`)(ctx, t, w, ""),
		"GET /tools lists the to": overSocket("/ws", "busbar", `{"type":"tool_request","id":1,"data":{"name":"nothing"}}`)(ctx, t, w, ""),
	} {
		if !strings.Contains(answer, `"next":"`) || !strings.Contains(answer, door) {
			t.Errorf("%q is not in %s", door, answer)
		}
	}
	resp, _ := w.post(ctx, t, "/v1", ada, action(call{tool: "nothing"}))
	if next := resp.Header.Get("Busbar-Next"); !strings.Contains(next, "GET /tools lists") {
		t.Errorf("/v1: %q", next)
	}
	_, err := w.grpc.GetPrompt(asAda(ctx), &gatewayv1.GetPromptRequest{Name: "nothing"})
	if next := metadataOf(t, err)["next"]; !strings.Contains(next, "ListPrompts lists") {
		t.Errorf("gRPC: %q", next)
	}

	path := regexp.MustCompile(`\b(GET|POST) (/[\w/{}.]*\w)`)
	rpcs := slices.Concat(methodsOf(gatewayv1.GatewayService_ServiceDesc), streamsOf(gatewayv1.GatewayService_ServiceDesc))
	named := map[string]bool{}
	each := func(text string, of *regexp.Regexp, there func(name string) bool) {
		for _, m := range of.FindAllString(text, -1) {
			named[m] = true
			if !there(m) {
				t.Errorf("%q names %s, which is not there", text, m)
			}
		}
	}
	paths := func(name string) bool {
		method, at, _ := strings.Cut(name, " ")
		r := request{method: method, path: strings.NewReplacer("{", "", "}", "").Replace(at)}
		if method == http.MethodPost {
			r.body = "{}"
		}
		resp, body := w.try(t, r, "Bearer "+ada)
		return resp.StatusCode != http.StatusMethodNotAllowed && !strings.Contains(body, `"method_not_found"`)
	}
	for _, reason := range reasons(t) {
		way := forms.WayOn(fault.Reason(reason))
		for _, text := range []string{way.HTTP, way.GraphQL, way.GRPC, way.WebSocket} {
			each(text, path, paths)
		}
		each(way.GraphQL, regexp.MustCompile(`\bget[A-Z]\w+|\banswer[A-Z]\w+|^approve\b`), func(name string) bool {
			return strings.Contains(graphql.Schema, " "+name+"(") || strings.Contains(graphql.Schema, " "+name+":")
		})
		each(way.GRPC, regexp.MustCompile(`\b(List|Get|Approve|Answer)[A-Z]?\w*\b`), func(name string) bool { return slices.Contains(rpcs, name) })
		each(way.WebSocket, regexp.MustCompile(`\b\w+_(request|response)\b`), func(name string) bool {
			answer := overSocket("/ws", "busbar", `{"type":"`+name+`","id":1}`)(ctx, t, w, "")
			return !strings.Contains(answer, "method_not_found")
		})
		each(way.MCP, regexp.MustCompile(`\b(tools|prompts|resources|server)(/[a-z]+)+\b`), func(name string) bool {
			answer := posted("/mcp", modern(name, `"x":1`), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", name)(ctx, t, w, "")
			return !strings.Contains(answer, "-32601")
		})
	}
	if len(named) < 25 {
		t.Errorf("only %d ways are named", len(named))
	}
}
