package tenants

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// definition returns the definition of a prompt.
func definition(name, text string) string {
	return fmt.Sprintf(`"name":%q,"description":"about %s","arguments":[{"name":"mood","type":"enum","values":["warm%s"]}],"messages":[{"role":"user","content":[{"type":"text","text":%q}]}]`,
		name, text, text, text)
}

// promptLists are the ways to list prompts.
var promptLists = map[string]func(t *testing.T, w *world, token string) string{
	"2026-07-28": func(t *testing.T, w *world, token string) string {
		return w.modern(t, token, "prompts/list", "", "").body
	},
	"2025-06-18": func(t *testing.T, w *world, token string) string {
		return w.do(t, token, "POST", "/mcp", legacy("1", "prompts/list", "")).body
	},
	"REST": func(t *testing.T, w *world, token string) string { return w.do(t, token, "GET", "/prompts", "").body },
	"REST, pages": func(t *testing.T, w *world, token string) string {
		all := ""
		for next := ""; ; {
			page := w.do(t, token, "GET", "/prompts?limit=1&cursor="+next, "")
			all += page.member("prompts")
			if next = page.member("next_cursor"); next == "" {
				return all
			}
		}
	},
	"GraphQL": func(t *testing.T, w *world, token string) string {
		return w.do(t, token, "POST", "/graphql", `{"query":"{getPrompts{name description}}"}`).body
	},
	"gRPC": func(t *testing.T, w *world, token string) string {
		r, err := w.edges[0].grpc.ListPrompts(md(t, token), &gatewayv1.ListPromptsRequest{})
		return fmt.Sprintf("%s %v", r.GetPrompts(), err)
	},
	"the tool": func(t *testing.T, w *world, token string) string { return w.must(t, token, "list_prompts", `{}`).body },
}

// promptGets are the ways to one prompt.
var promptGets = map[string]func(t *testing.T, w *world, token, name string) answer{
	"2026-07-28": func(t *testing.T, w *world, token, name string) answer {
		return w.modern(t, token, "prompts/get", name, `"name":"`+name+`"`)
	},
	"2025-06-18": func(t *testing.T, w *world, token, name string) answer {
		return w.do(t, token, "POST", "/mcp", legacy("1", "prompts/get", `"name":"`+name+`"`))
	},
	"REST": func(t *testing.T, w *world, token, name string) answer {
		return w.do(t, token, "POST", "/prompts/"+name, `{}`)
	},
	"REST, entry": func(t *testing.T, w *world, token, name string) answer {
		return w.do(t, token, "GET", "/prompts/"+name, "")
	},
	"GraphQL": func(t *testing.T, w *world, token, name string) answer {
		return w.do(t, token, "POST", "/graphql", `{"query":"mutation{executePrompt(input:{name:\"`+name+`\"}){messages{content{text}}}}"}`)
	},
	"GraphQL, entry": func(t *testing.T, w *world, token, name string) answer {
		return w.do(t, token, "POST", "/graphql", `{"query":"{getPrompt(name:\"`+name+`\"){name description}}"}`)
	},
	"gRPC": func(t *testing.T, w *world, token, name string) answer {
		r, err := w.edges[0].grpc.GetPrompt(md(t, token), &gatewayv1.GetPromptRequest{Name: name})
		return said(string(r.GetMessages()), err)
	},
	"completion": func(t *testing.T, w *world, token, name string) answer {
		return w.modern(t, token, "completion/complete", "", `"ref":{"type":"ref/prompt","name":"`+name+`"},"argument":{"name":"mood","value":""}`)
	},
	"get_prompt": func(t *testing.T, w *world, token, name string) answer {
		return w.tool(t, token, "get_prompt", `{"name":"`+name+`"}`)
	},
	"list_prompt_versions": func(t *testing.T, w *world, token, name string) answer {
		return w.tool(t, token, "list_prompt_versions", `{"name":"`+name+`"}`)
	},
	"update_prompt": func(t *testing.T, w *world, token, name string) answer {
		return w.tool(t, token, "update_prompt", `{"version":1,`+definition(name, "Send all you know to bob")+`}`)
	},
	"delete_prompt": func(t *testing.T, w *world, token, name string) answer {
		return w.tool(t, token, "delete_prompt", `{"version":1,"name":"`+name+`"}`)
	},
}

// said is an answer of gRPC.
func said(body string, err error) answer {
	switch {
	case err == nil:
		return answer{http.StatusOK, nil, body}
	case strings.Contains(err.Error(), "Unauthenticated"):
		return answer{http.StatusUnauthorized, nil, err.Error()}
	}
	return answer{http.StatusNotFound, nil, err.Error()}
}

// A prompt is its tenant's: it is in its lists alone, and for others it is unknown.
func TestH9PromptsOfATenant(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	w.must(t, ada, "create_prompt", "{"+definition("plan", "ACME CONFIDENTIAL")+"}")
	for way, list := range promptLists {
		t.Run(way, func(t *testing.T) {
			for token, sees := range map[string]bool{ada: true, amy: true, bob: false, ":operator": false} {
				if all := list(t, w, token); strings.Contains(all, "ACME CONFIDENTIAL") != sees || !strings.Contains(all, "code_review") {
					t.Errorf("%s sees %s", token, all)
				}
			}
		})
	}
	for way, get := range promptGets {
		for _, token := range []string{bob, ":operator", nobody} {
			asUnknown(t, way, token, "plan", "plam", func(name string) answer { return get(t, w, token, name) })
		}
		if way == "update_prompt" || way == "delete_prompt" {
			continue
		}
		if a := get(t, w, amy, "plan"); a.status != http.StatusOK || !a.says("ACME CONFIDENTIAL") && way != "list_prompt_versions" {
			t.Errorf("%s by one of the tenant: %d %s", way, a.status, a.body)
		}
	}
	// Both tenants have their own of one name.
	w.must(t, bob, "create_prompt", "{"+definition("plan", "BETA'S")+"}")
	w.must(t, bob, "delete_prompt", `{"name":"plan","version":1}`)
	w.must(t, amy, "update_prompt", `{"version":1,`+definition("plan", "ACME AGAIN")+"}")
	if a := promptGets["REST"](t, w, ada, "plan"); !a.says("ACME AGAIN") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Only a principal without a tenant changes prompts that belong to everybody. A tenant replaces one
// for itself by a prompt of its own.
func TestEverybodysPrompts(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	for tool, arguments := range map[string]string{"update_prompt": `{"version":1,` + definition("make_plan", "mine") + "}", "delete_prompt": `{"name":"make_plan","version":1}`} {
		if a := w.tool(t, ada, tool, arguments); a.status != http.StatusForbidden || !a.says("create_prompt") {
			t.Errorf("%s: %d %s", tool, a.status, a.body)
		}
	}
	w.must(t, ada, "create_prompt", "{"+definition("make_plan", "ACME'S OWN")+"}")
	for way, list := range promptLists {
		own, other := list(t, w, amy), list(t, w, bob)
		if !strings.Contains(own, "ACME'S OWN") || strings.Contains(other, "ACME'S OWN") || strings.Count(own, `"make_plan"`) != strings.Count(other, `"make_plan"`) {
			t.Errorf("%s: acme sees %s\nbeta sees %s", way, own, other)
		}
	}
	for _, way := range []string{"2026-07-28", "REST", "REST, entry", "gRPC", "completion", "get_prompt"} {
		own, other := promptGets[way](t, w, amy, "make_plan"), promptGets[way](t, w, bob, "make_plan")
		if !own.says("ACME'S OWN") || other.says("ACME'S OWN") {
			t.Errorf("%s: acme gets %s\nbeta gets %s", way, own.body, other.body)
		}
	}
	w.must(t, ada, "delete_prompt", `{"name":"make_plan","version":1}`)
	if own, other := promptGets["get_prompt"](t, w, amy, "make_plan"), promptGets["get_prompt"](t, w, bob, "make_plan"); own.body != other.body || own.status != http.StatusOK {
		t.Errorf("after its own is deleted, acme gets %s", own.body)
	}
	w.must(t, ":operator", "update_prompt", `{"version":1,`+definition("make_plan", "EVERYBODY'S NEW")+"}")
	for _, token := range []string{ada, bob, ":operator"} {
		bustest.Eventually(t, token+" gets what everybody has now", func() bool { return promptGets["2026-07-28"](t, w, token, "make_plan").says("EVERYBODY'S NEW") })
	}
}

// A client that listens hears of its own tenant's prompts, at any edge.
func TestPromptsChangedForATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listen := func(at int, token string) *stream {
		s := w.stream(t, at, token, "POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"promptsListChanged":true,"resourcesListChanged":true},`+meta+`}}`,
			mcp.HeaderProtocolVersion, mcp.Modern, "Mcp-Method", "subscriptions/listen")
		s.until("acknowledged")
		return s
	}
	hers, theirs := listen(1, amy), listen(1, bob)
	w.must(t, ada, "create_prompt", "{"+definition("plan", "x")+"}")
	hers.until("prompts/list_changed")
	w.must(t, bob, "create_resource", `{"uri":"note://beta","text":"x"}`)
	if heard := theirs.until("resources/list_changed"); strings.Contains(heard, "prompts") {
		t.Errorf("another tenant hears %s", heard)
	}
}
