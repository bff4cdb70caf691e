package tenants

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// readers are the ways to a resource, and to change it.
var readers = map[string]func(t *testing.T, w *world, token, uri string) answer{
	"2026-07-28": func(t *testing.T, w *world, token, uri string) answer {
		return w.modern(t, token, "resources/read", uri, `"uri":"`+uri+`"`)
	},
	"2025-06-18": func(t *testing.T, w *world, token, uri string) answer {
		return w.do(t, token, "POST", "/mcp", legacy("1", "resources/read", `"uri":"`+uri+`"`))
	},
	"REST, in the query": func(t *testing.T, w *world, token, uri string) answer {
		return w.do(t, token, "GET", "/resources?uri="+url.QueryEscape(uri), "")
	},
	"REST, in the path": func(t *testing.T, w *world, token, uri string) answer {
		return w.do(t, token, "GET", "/resources/"+url.PathEscape(uri), "")
	},
	"REST, delete": func(t *testing.T, w *world, token, uri string) answer {
		return w.do(t, token, "DELETE", "/resources/"+url.PathEscape(uri), "")
	},
	"GraphQL": func(t *testing.T, w *world, token, uri string) answer {
		return w.do(t, token, "POST", "/graphql", `{"query":"{getResource(uri:\"`+uri+`\"){contents{text}}}"}`)
	},
	"gRPC": func(t *testing.T, w *world, token, uri string) answer {
		r, err := w.edges[1].grpc.ReadResource(md(t, token), &gatewayv1.ReadResourceRequest{Uri: uri})
		return said(string(r.GetContents()), err)
	},
	"read_resource": func(t *testing.T, w *world, token, uri string) answer {
		return w.tool(t, token, "read_resource", `{"uri":"`+uri+`"}`)
	},
	"update_resource": func(t *testing.T, w *world, token, uri string) answer {
		return w.tool(t, token, "update_resource", `{"uri":"`+uri+`","text":"x"}`)
	},
	"delete_resource": func(t *testing.T, w *world, token, uri string) answer {
		return w.tool(t, token, "delete_resource", `{"uri":"`+uri+`"}`)
	},
}

// resourceLists are the ways to list resources.
var resourceLists = map[string]func(t *testing.T, w *world, token string) string{
	"2026-07-28": func(t *testing.T, w *world, token string) string {
		return w.modern(t, token, "resources/list", "", "").body
	},
	"2025-06-18": func(t *testing.T, w *world, token string) string {
		return w.do(t, token, "POST", "/mcp", legacy("1", "resources/list", "")).body
	},
	"REST": func(t *testing.T, w *world, token string) string { return w.do(t, token, "GET", "/resources", "").body },
	"GraphQL": func(t *testing.T, w *world, token string) string {
		return w.do(t, token, "POST", "/graphql", `{"query":"{getResources{uri}}"}`).body
	},
	"gRPC": func(t *testing.T, w *world, token string) string {
		r, err := w.edges[1].grpc.ListResources(md(t, token), &gatewayv1.ListResourcesRequest{})
		return fmt.Sprintf("%s %v", r.GetResources(), err)
	},
	"list_resources": func(t *testing.T, w *world, token string) string {
		return w.tool(t, token, "list_resources", `{"prefix":"custom://config/"}`).body
	},
	"search_resources": func(t *testing.T, w *world, token string) string {
		return w.tool(t, token, "search_resources", `{"query":"acme"}`).body
	},
	"completion": func(t *testing.T, w *world, token string) string {
		return w.modern(t, token, "completion/complete", "", `"ref":{"type":"ref/resource","uri":"custom://config/{config_name}"},"argument":{"name":"config_name","value":"acme"}`).body
	},
}

func TestResources(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	const uri = "custom://config/acmeplan"
	w.must(t, ada, "create_resource", `{"uri":"`+uri+`","text":"acme only"}`)
	w.must(t, ada, "create_resource", `{"uri":"custom://config/acmeplan2","text":"acme only"}`)
	for way, try := range readers {
		for _, token := range []string{bob, nobody} {
			asUnknown(t, way, token, uri, "custom://config/acmeplax", func(uri string) answer { return try(t, w, token, uri) })
		}
	}
	if a := w.do(t, bob, "PUT", "/resources/"+url.PathEscape(uri), `{"text":"beta's"}`); a.status != http.StatusCreated {
		t.Errorf("what is put is made, under the same URI too: %d %s", a.status, a.body)
	}
	w.must(t, bob, "delete_resource", `{"uri":"`+uri+`"}`)
	for way, list := range resourceLists {
		for token, sees := range map[string]bool{ada: true, amy: true, bob: false, nobody: false} {
			if all := list(t, w, token); strings.Contains(all, "acmeplan") != sees {
				t.Errorf("%s: %q sees %s", way, token, all)
			}
		}
	}
	// A cursor of one tenant is not valid in another's list.
	page := w.tool(t, ada, "list_resources", `{"limit":1}`)
	rest := w.do(t, ada, "GET", "/resources?limit=1", "")
	for _, cursor := range []string{page.member("structured_content.nextCursor"), rest.member("next_cursor")} {
		if cursor == "" {
			t.Errorf("there is no second page: %s %s", page.body, rest.body)
		}
		for _, a := range []answer{w.tool(t, bob, "list_resources", `{"cursor":"`+cursor+`"}`), w.do(t, bob, "GET", "/resources?cursor="+url.QueryEscape(cursor), "")} {
			if a.says("acmeplan") {
				t.Errorf("another's cursor shows %s", a.body)
			}
		}
	}
	if a := readers["REST, in the query"](t, w, amy, uri); a.status != http.StatusOK || !a.says("acme only") {
		t.Errorf("of the tenant: %d %s", a.status, a.body)
	}
}

// A subscriber of a URI hears of its own tenant's resource there.
func TestUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listen := func(at int, token string) *stream {
		s := w.stream(t, at, token, "POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["note://x","note://end"]},`+meta+`}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
		s.until("acknowledged")
		return s
	}
	subscribed := func(at int, token string) *stream {
		id := w.session(t, token)
		s := w.stream(t, at, token, "GET", "/mcp", "", in(id)...)
		if a := w.do(t, token, "POST", "/mcp", legacy("1", "resources/subscribe", `"uri":"note://x"`), in(id)...); a.status != http.StatusOK || a.says(`"error"`) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a := w.do(t, token, "POST", "/mcp", legacy("1", "resources/subscribe", `"uri":"note://end"`), in(id)...); a.says(`"error"`) {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return s
	}
	hers := []*stream{listen(1, amy), subscribed(0, amy)}
	theirs := []*stream{listen(1, bob), subscribed(0, bob)}
	w.must(t, ada, "create_resource", `{"uri":"note://x","text":"a"}`)
	w.must(t, ada, "update_resource", `{"uri":"note://x","text":"b"}`)
	w.must(t, ada, "delete_resource", `{"uri":"note://x"}`)
	for _, s := range hers {
		s.until("note://x")
	}
	w.must(t, bob, "create_resource", `{"uri":"note://end","text":"a"}`)
	for _, s := range theirs {
		if heard := s.until("note://end"); strings.Contains(heard, "note://x") || strings.Count(heard, "list_changed") > 1 {
			t.Errorf("another tenant hears %s", heard)
		}
	}
}
