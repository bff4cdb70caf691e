package tenants

import (
	"context"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// searches finds tools in place of listing them: those that somebody may use, as they are
// shown.
func (w *world) searches(t *testing.T) {
	ask := func(token, path, name, arguments string) answer {
		return w.do(t, token, "POST", path, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`,`+meta+`}}`,
			mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "tools/call", "Mcp-Name", name)
	}
	// A new tool is found within a second, or later on a slow machine.
	bustest.Eventually(t, "the shop can be found", func() bool {
		return ask(ada, "/mcp", "search_tools", `{"query":"lookup orders","limit":10}`).says("orders_get")
	})
	for _, path := range []string{"/mcp?tools=search", "/mcp/desk?tools=search"} {
		a := w.do(t, ada, "POST", path, `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{`+meta+`}}`, mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "tools/list")
		if got := toolsIn(a); got != "describe_tools search_tools" {
			t.Errorf("%s lists %s", path, got)
		}
	}
	for _, c := range []struct {
		token, path string
		has, lacks  []string
	}{
		{ada, "/mcp", []string{"orders_get", "lookup"}, []string{"secret_lookup", "find_order:"}},
		{ada, "/mcp/desk", []string{"find_order: Finds an order by its number.", "orders_get"}, []string{"secret_lookup", "orders_export", " lookup"}},
		{amy, "/mcp/desk", []string{"find_order"}, []string{"orders_get", "orders_export"}},
		{bob, "/mcp", []string{"No tool fits"}, []string{"orders_get"}},
	} {
		a := ask(c.token, c.path, "search_tools", `{"query":"lookup orders","limit":10}`)
		for _, text := range c.has {
			if !a.says(text) {
				t.Errorf("%s at %s finds no %s: %s", c.token, c.path, text, a.body)
			}
		}
		for _, text := range c.lacks {
			if a.says(text) {
				t.Errorf("%s at %s finds %s: %s", c.token, c.path, text, a.body)
			}
		}
		if len(a.body) > 2<<10+200 { // with the message around it
			t.Errorf("%d bytes: %s", len(a.body), a.body)
		}
	}
	if a := ask(ada, "/mcp/desk", "describe_tools", `{"names":["find_order","lookup","secret_lookup"]}`); !a.says(`Finds an order`) || a.says("table") || !a.says("Unknown tool: lookup") || !a.says("Unknown tool: secret_lookup") {
		t.Error(a.body)
	}
	if a := ask(ada, "/mcp/desk?tools=search", "find_order", `{"key":"7"}`); !a.says("ran lookup") {
		t.Errorf("a tool that is not listed is not called: %s", a.body)
	}
	if a := ask(ada, "/mcp", "search_tools", `{"query":"lookup orders","limit":1.0}`); strings.Count(a.body, "own words") != 1 {
		t.Errorf("a limit of 1.0: %s", a.body)
	}
	for _, arguments := range []string{`{}`, `{"query":""}`, `{"query":"x","limit":11}`, `{"query":"` + strings.Repeat("x", 513) + `"}`, `{"names":["x"]}`} {
		if a := ask(ada, "/mcp", "search_tools", arguments); !a.says(`"isError":true`) {
			t.Errorf("%s: %s", arguments, a.body)
		}
	}
	s := service.New("late", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "zeppelin_moor", ReadOnly: true}, func(context.Context, *service.Call, struct{}) (*service.Result, error) {
		return &service.Result{}, nil
	})
	servicetest.Join(t, bustest.Connect(t, w.nats), s)
	bustest.Eventually(t, "a new tool is found", func() bool {
		return ask(ada, "/mcp", "search_tools", `{"query":"moor a zeppelin"}`).says("zeppelin_moor")
	})
}
