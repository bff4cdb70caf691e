package tenants

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge/access"
)

const deskPolicy = `
require_approval: []
roles:
  clerk: {allow: ["tools/*", "prompts/*", "resources/*", "toolsets/*"], deny: [tools/secret_lookup, toolsets/inner], audit: read}
  temp: {allow: [tools/lookup, toolsets/desk]}
principals: {ada: {tenant: acme, roles: [clerk]}, amy: {tenant: acme, roles: [temp]}, bob: {tenant: beta, roles: []}}
toolsets:
  desk:
    offers: ["tools/or*", "prompts/*", "resources/shop://*"]
    hide: [tools/orders_export, "resources/shop://hidden*"]
    tools:
      find_order: {tool: lookup, title: Find an order, description: Finds an order by its number., fixed: {table: orders}}
      find_customer: {tool: lookup, fixed: {table: customers}}
      orders_list: {tool: lookup, fixed: {table: lists}}
      misfit: {tool: lookup, fixed: {tabel: orders}}
      peek: {tool: secret_lookup}
      agree: {tool: approved, fixed: {key: set}}
    prompts:
      hello: {prompt: greet, fixed: {tone: kind}}
  other: {tools: {find_order: {tool: orders_get}}}
  inner: {offers: ["*"]}
`

// shop is a service with tools that repeat their arguments.
func shop() *service.Service {
	s := service.New("shop", service.WithVersion("1.0.0"))
	for _, name := range []string{"lookup", "secret_lookup", "orders_get", "orders_list", "orders_export"} {
		service.AddTool(s, service.Tool{
			Name: name, ReadOnly: true, Description: "own words",
			InputSchema: []byte(`{"type":"object","properties":{"table":{"type":"string"},"key":{"type":"string"},"limit":{"maximum":9007199254740993}},"required":["table"]}`),
		}, func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text("ran " + name + " with " + string(in))}}, nil
		})
	}
	s.AddPrompt(mcp.Prompt{Name: "greet", Arguments: []mcp.PromptArgument{{Name: "name"}, {Name: "tone"}}},
		func(_ context.Context, _ *service.Call, in map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("greet " + in["name"] + " in a " + in["tone"] + " tone")}}, nil
		}, map[string]service.CompleteFunc{"name": func(_ context.Context, _ *service.Call, _ string, known map[string]string) ([]string, error) {
			return []string{"who is " + known["tone"]}, nil
		}})
	for _, name := range []string{"open", "hidden"} {
		s.AddResource(mcp.Resource{URI: "shop://" + name, Name: name}, func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{Text: "hello"}}, nil
		})
	}
	return s
}

// within is a path in a toolset; none is all there is.
func within(path, set string) string {
	if set == "" {
		return path
	}
	return path + "/" + set
}

// through is md with a toolset.
func through(t *testing.T, token, set string) context.Context {
	if set == "" {
		return md(t, token)
	}
	return metadata.AppendToOutgoingContext(md(t, token), "busbar-toolset", set)
}

// modernAt is modern at a toolset.
func (w *world) modernAt(t *testing.T, token, set, method, name, params string) answer {
	t.Helper()
	headers := []string{mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	return w.do(t, token, "POST", within("/mcp", set), `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+meta+`}}`, headers...)
}

// deskDoors are the ways to one tool, each with arguments as JSON; and to all of them.
var deskDoors = map[string]struct {
	call func(t *testing.T, w *world, token, set, tool, arguments string) answer
	list func(t *testing.T, w *world, token, set string) answer
}{
	"MCP 2026-07-28": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		return w.modernAt(t, token, set, "tools/call", tool, `"name":"`+tool+`","arguments":`+arguments+`,`)
	}, func(t *testing.T, w *world, token, set string) answer {
		return w.modernAt(t, token, set, "tools/list", "", "")
	}},
	"MCP 2025-06-18": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		return w.do(t, token, "POST", within("/mcp", set), legacy("7", "tools/call", `"name":"`+tool+`","arguments":`+arguments), mcp.HeaderProtocolVersion, mcp.V20250618)
	}, func(t *testing.T, w *world, token, set string) answer {
		return w.do(t, token, "POST", within("/mcp", set), legacy("7", "tools/list", ""), mcp.HeaderProtocolVersion, mcp.V20250618)
	}},
	"REST": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		if set == "" {
			return w.tool(t, token, tool, arguments)
		}
		return w.do(t, token, "POST", "/toolsets/"+set+"/tools/"+tool, arguments)
	}, func(t *testing.T, w *world, token, set string) answer {
		return w.do(t, token, "GET", "/toolsets/"+set+"/tools", "")
	}},
	"envelope": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		return w.do(t, token, "POST", within("/v1", set), `{"version":"1.0","action":{"name":"`+tool+`","parameters":`+arguments+`}}`)
	}, nil},
	"GraphQL": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		return w.do(t, token, "POST", within("/graphql", set), `{"query":"mutation($p:JSON){executeTool(input:{name:\"`+tool+`\",parameters:$p}){content{text}}}","variables":{"p":`+arguments+`}}`)
	}, func(t *testing.T, w *world, token, set string) answer {
		return w.do(t, token, "POST", within("/graphql", set), `{"query":"{getTools{name description}}"}`)
	}},
	"gRPC": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		stream, err := w.edges[1].grpc.CallTool(through(t, token, set), &gatewayv1.CallToolRequest{Name: tool, ArgumentsText: arguments})
		for err == nil {
			var part *gatewayv1.CallToolResponse
			if part, err = stream.Recv(); err == nil && part.GetResult() != nil {
				return answer{status: 200, body: part.String()}
			}
		}
		return said("", err)
	}, func(t *testing.T, w *world, token, set string) answer {
		r, err := w.edges[1].grpc.ListTools(through(t, token, set), &gatewayv1.ListToolsRequest{})
		if status.Code(err) == codes.NotFound {
			return answer{status: http.StatusNotFound, body: err.Error()}
		}
		return said(r.String(), err)
	}},
	"WebSocket": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		if token == nobody {
			return answer{status: http.StatusUnauthorized} // it does not get that far: see test/doors
		}
		s := w.socket(t, token, within("/ws", set), "busbar")
		s.send(`{"type":"tool_request","id":7,"data":{"name":"` + tool + `","parameters":` + arguments + `}}`)
		return s.until(`"id":`) // null of what cannot be read
	}, nil},
	"MCP over a WebSocket": {func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		if token == nobody {
			return answer{status: http.StatusUnauthorized}
		}
		s := w.socket(t, token, within("/ws", set), "mcp")
		s.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `,` + meta + `}}`)
		return s.until(`"jsonrpc"`)
	}, nil},
}

var shownTool = regexp.MustCompile(`"?name"?:\s?\\?"([a-z_]+)\\?"`)

// toolsIn are the names of tools in a list, however the door writes it.
func toolsIn(a answer) string {
	var names []string
	for _, m := range shownTool.FindAllStringSubmatch(a.body, -1) {
		if m[1] != "busbar" {
			names = append(names, m[1])
		}
	}
	return strings.Join(names, " ")
}

// A toolset shows and calls the same at every door, gives nobody a right, and cannot be
// left by any name, argument or cursor.
func TestToolsets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.yaml")
	write := func(policy string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(deskPolicy)
	live, err := access.Open(path, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	w := newWorldWith(t, live)
	servicetest.Join(t, bustest.Connect(t, w.nats), shop())
	bustest.Eventually(t, "both edges have the shop", func() bool {
		r, err := w.edges[1].grpc.ListTools(md(t, ada), &gatewayv1.ListToolsRequest{})
		return err == nil && strings.Contains(r.String(), "orders_list") && w.do(t, ada, "GET", "/tools/orders_list", "").status == http.StatusOK
	})

	for name, door := range deskDoors {
		t.Run(name, func(t *testing.T) { atDoor(t, w, door.call, door.list) })
	}
	t.Run("the way on stays in it", func(t *testing.T) {
		for name, want := range map[string]string{
			"REST": "GET /toolsets/desk/tools lists the tools", "envelope": "GET /toolsets/desk/tools lists the tools", "WebSocket": "GET /toolsets/desk/tools lists the tools",
			"GraphQL": "getTools lists the tools", "MCP 2026-07-28": "tools/list lists the tools",
		} {
			if a := deskDoors[name].call(t, w, ada, "desk", "nosuch", `{}`); !a.says(want) && a.header.Get("Busbar-Next") != want {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		for path, want := range map[string]string{
			"/toolsets/desk/tools/nosuch": "GET /toolsets/desk/tools lists", "/toolsets/desk/prompts/nosuch": "GET /toolsets/desk/prompts lists",
			"/toolsets/nosuch/tools": "GET /tools lists every tool that you may call",
		} {
			if a := w.do(t, ada, "GET", path, ""); !a.says(want) {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	})
	t.Run("a fixed argument is told as a wrong one", func(t *testing.T) {
		const data = `"parameter":"table","detail":"`
		for name, want := range map[string]string{"MCP 2026-07-28": `"isError":true`, "MCP 2025-06-18": data, "REST": data} {
			a := heard(t, func() answer { return deskDoors[name].call(t, w, ada, "desk", "find_order", `{"table":"x"}`) })
			if !a.says(want) || !a.says("invalid_params") {
				t.Errorf("%s: %s lacks %s", name, a.body, want)
			}
		}
	})
	t.Run("what else is in it", func(t *testing.T) { w.rest(t) })
	t.Run("search", func(t *testing.T) { w.searches(t) })
	t.Run("approval", func(t *testing.T) { w.approvedThrough(t) })
	t.Run("trail", func(t *testing.T) {
		bustest.Eventually(t, "the trail has the real name, the fixed argument and the set", func() bool {
			a := w.do(t, ada, "GET", "/audit/list?limit=1000&name=approved", "")
			return a.says(`"toolset":"desk"`) && a.says(`"name":"approved"`) && a.says(`"key":"set"`)
		})
	})
	t.Run("another policy", func(t *testing.T) {
		s := w.stream(t, 0, ada, "POST", "/mcp/desk", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`,
			mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "subscriptions/listen")
		s.until("acknowledged")
		write(strings.Replace(deskPolicy, "find_customer:", "find_person:", 1))
		s.until("tools/list_changed")
		list := deskDoors["REST"].list
		// The notification may be about an earlier change, of the tool that was found late.
		bustest.Eventually(t, "the set has the tool under its new name", func() bool {
			got := toolsIn(list(t, w, ada, "desk"))
			return strings.Contains(got, "find_person") && !strings.Contains(got, "find_customer")
		})
		write(strings.Replace(deskPolicy, "  desk:\n", "  bench:\n", 1))
		bustest.Eventually(t, "the set is gone", func() bool { return list(t, w, ada, "desk").status == http.StatusNotFound })
	})
}

func atDoor(t *testing.T, w *world, try func(t *testing.T, w *world, token, set, tool, arguments string) answer, list func(t *testing.T, w *world, token, set string) answer) {
	call := func(t *testing.T, w *world, token, set, tool, arguments string) answer {
		t.Helper()
		return heard(t, func() answer { return try(t, w, token, set, tool, arguments) })
	}
	if list != nil {
		for token, want := range map[string]string{ada: "agree find_customer find_order orders_get orders_list", amy: "find_customer find_order orders_list"} {
			a := list(t, w, token, "desk")
			if got := toolsIn(a); got != want {
				t.Errorf("%s sees %s, not %s: %s", token, got, want, a.body)
			}
			if a.says("table") && !a.says("orders_get") || a.says("secret_lookup") || !a.says("Finds an order by its number.") {
				t.Errorf("%s is shown %s", token, a.body)
			}
		}
		// A missing toolset and a forbidden one look the same.
		none, theirs := list(t, w, ada, "nosuch"), list(t, w, ada, "inner")
		if none.status != http.StatusNotFound || theirs.status != none.status || strings.ReplaceAll(theirs.body, "inner", "nosuch") != none.body || !none.says("desk, other") {
			t.Errorf("unknown: %d %s\nforbidden: %d %s", none.status, none.body, theirs.status, theirs.body)
		}
	}
	ran := func(tool, arguments string, want ...string) {
		t.Helper()
		a := call(t, w, ada, "desk", tool, arguments)
		for _, text := range want {
			if !strings.Contains(strings.ReplaceAll(a.body, `\`, ""), text) {
				t.Errorf("%s %s: %d %s lacks %s", tool, arguments, a.status, a.body, text)
			}
		}
	}
	ran("find_order", `{"key":"7"}`, "ran lookup", `"table":"orders"`, `"key":"7"`)
	ran("find_customer", `{}`, "ran lookup", `"table":"customers"`)
	ran("orders_list", `{}`, "ran lookup", `"table":"lists"`) // which another tool is called elsewhere
	ran("orders_get", `{"table":"x"}`, "ran orders_get", `"table":"x"`)
	for tool, arguments := range map[string][]string{
		// By its own name, hidden, renamed away, of another set, denied, of nobody.
		"lookup": {`{"table":"x"}`}, "orders_export": {`{"table":"x"}`}, "secret_lookup": {`{"table":"x"}`}, "peek": {`{"table":"x"}`},
		// Hidden and fixed, with the slash that is read as an underscore.
		"orders/export": {`{"table":"x"}`}, "orders/list": {`{"table":"x"}`},
		"approved": {`{"key":"x"}`}, "who": {`{}`}, "nosuch": {`{}`}, "misfit": {`{"table":"x"}`},
		"find_order": {
			`{"table":"customers"}`, `{"Table":"customers"}`, `{"TABLE":"customers"}`, `{"ta_ble":"customers"}`, `{"tab-le":"customers"}`, `{"tab\u006ce":"customers"}`,
			`{"key":"1","table":"a","table":"b"}`, `{"key":"1","key":"2"}`, `{"ta\u017fble":1,"TABLE":2}`,
		},
	} {
		for _, one := range arguments {
			if a := call(t, w, ada, "desk", tool, one); a.says("ran ") || a.says("acme/ada") {
				t.Errorf("%s %s ran: %s", tool, one, a.body)
			} else if a.says("secret_lookup") && tool == "peek" {
				t.Errorf("a tool that is denied is named: %s", a.body)
			}
		}
	}
	if a := call(t, w, amy, "desk", "orders_get", `{"table":"x"}`); a.says("ran ") {
		t.Errorf("the set gave a right: %s", a.body)
	}
}

// rest tries the other members of a set than tools.
func (w *world) rest(t *testing.T) {
	desk := func(method, name, params string) answer {
		return w.modernAt(t, ada, "desk", method, name, params)
	}
	if a := desk("prompts/list", "", ""); !a.says(`{"arguments":[{"name":"name"}],"name":"hello"}`) || a.says(`"greet"`) {
		t.Error(a.body)
	}
	if a := desk("prompts/get", "hello", `"name":"hello","arguments":{"name":"Ada"},`); !a.says("greet Ada in a kind tone") {
		t.Error(a.body)
	}
	for _, params := range []string{`"name":"hello","arguments":{"tone":"rude"},`, `"name":"hello","arguments":{"Tone":"rude"},`, `"name":"greet","arguments":{"tone":"rude"},`} {
		name := strings.Split(params, `"`)[3]
		if a := desk("prompts/get", name, params); a.says("rude tone") || !a.says(`"error"`) {
			t.Error(a.body)
		}
	}
	if a := desk("completion/complete", "", `"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"tone","value":""},`); !a.says(`"error"`) {
		t.Error(a.body)
	}
	if a := desk("completion/complete", "", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""},`); !a.says("Unknown prompt: greet") {
		t.Error(a.body)
	}
	name := `"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"name","value":""}`
	for _, known := range []string{``, `"context":null,`, `"context":{"arguments":null},`, `"context":{"arguments":{"other":"x"}},`} {
		if a := desk("completion/complete", "", name+","+known); !a.says("who is kind") {
			t.Errorf("completed with %s: %s", known, a.body)
		}
	}
	for _, known := range []string{`{"tone":"rude"}`, `{"Tone":"rude"}`, `{"tone":"rude","tone":"kind"}`} {
		if a := desk("completion/complete", "", name+`,"context":{"arguments":`+known+`},`); !a.says(`"error"`) || a.says("who is") {
			t.Errorf("completed with %s: %s", known, a.body)
		}
	}
	if a := desk("resources/list", "", ""); !a.says("shop://open") || a.says("shop://hidden") {
		t.Error(a.body)
	}
	if a := desk("resources/read", "shop://open", `"uri":"shop://open",`); !a.says("hello") {
		t.Error(a.body)
	}
	for _, uri := range []string{"shop://hidden", "SHOP://hidden", "shop://%68idden", "skill://x"} {
		if a := desk("resources/read", uri, `"uri":"`+uri+`",`); !a.says(`"error"`) {
			t.Errorf("%s: %s", uri, a.body)
		}
	}
	// A cursor is good for the list that gave it, and for no other.
	next := w.do(t, ada, "GET", "/toolsets/desk/tools?limit=1", "").member("next_cursor")
	if next == "" {
		next = w.do(t, ada, "GET", "/toolsets/desk/tools?limit=1", "").member("nextCursor")
	}
	if a := w.do(t, ada, "GET", "/toolsets/desk/tools?limit=1&cursor="+next, ""); next == "" || toolsIn(a) != "find_customer" {
		t.Errorf("cursor %q: %s", next, a.body)
	}
	for _, path := range []string{"/tools", "/toolsets/other/tools", "/toolsets/desk/prompts"} {
		if a := w.do(t, ada, "GET", path+"?cursor="+next, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s takes it: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/toolsets", "/toolsets/", "/toolsets/desk", "/toolsets/desk/", "/toolsets/desk/approvals", "/toolsets//tools", "/toolsets/desk/toolsets/other/tools"} {
		if a := w.do(t, ada, "GET", path, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	s := w.stream(t, 0, ada, "GET", "/sse/desk", "")
	endpoint := strings.TrimSpace(s.until("data: /messages"))
	_, endpoint, _ = strings.Cut(endpoint, "data: ")
	if a := w.do(t, ada, "POST", endpoint, legacy("1", "initialize", `"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}`)); a.status != http.StatusAccepted {
		t.Fatal(a.status, a.body)
	}
	s.until(`"id":1`)
	if a := w.do(t, ada, "POST", endpoint, legacy("2", "tools/list", "")); a.status != http.StatusAccepted {
		t.Fatal(a.status, a.body)
	}
	if got := toolsIn(answer{body: s.until(`"id":2`)}); got != "agree find_customer find_order orders_get orders_list" {
		t.Errorf("over SSE: %s", got)
	}
}

// approvedThrough has a person agree to a call: to the real tool and all its arguments.
func (w *world) approvedThrough(t *testing.T) {
	a := w.do(t, ada, "POST", "/toolsets/desk/tools/agree", `{}`)
	id := a.member("data.approval")
	if a.status != http.StatusAccepted || id == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if look := w.do(t, ada, "GET", "/approvals/"+id, ""); !look.says("approved") || !look.says("key") || !look.says("set") {
		t.Errorf("a person is shown %s", look.body)
	}
	if a := w.do(t, ada, "POST", "/approvals/"+id, `{"approve":true}`); a.status != http.StatusOK || w.ledger.Runs("set") != 1 {
		t.Errorf("%d %s, %d runs", a.status, a.body, w.ledger.Runs("set"))
	}
	if a := w.modernAt(t, ada, "desk", "tools/call", "agree", `"name":"agree","arguments":{},`); !a.says("Let ") || !a.says("approved") || !a.says(fmt.Sprintf(`\"key\": \"%s\"`, "set")) {
		t.Errorf("the client's user is asked %s", a.body)
	}
}
