package doors

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// eve may know of nothing that is hidden, and of one tool.
const eve = "eve"

type sight struct{}

func (sight) Key() string { return eve }

func (sight) Sees(kind catalogue.Kind, name, of string) bool {
	return of == serviceName && !strings.Contains(name, "hidden") && (kind != catalogue.Tools || name == "look")
}

func (*policy) View(p gateway.Principal) catalogue.View {
	if p.Name == eve {
		return sight{}
	}
	return nil
}

// addSights adds names that eve may see, and names that she may not.
func addSights(s *service.Service) {
	text := func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{Text: "hello"}}, nil
	}
	for _, name := range []string{"seen", "hidden"} {
		s.AddPrompt(mcp.Prompt{Name: name}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{}, nil
		}, nil)
		s.AddResource(mcp.Resource{URI: "doors://" + name, Name: name}, text)
		s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "doors://" + name + "/{x}", Name: name}, text, nil)
	}
}

// as makes a way of somebody, by their token.
func (w *world) as(t *testing.T, token, path, body string) string {
	t.Helper()
	r := request{method: "POST", path: path, body: body}
	if body == "" {
		r.method = "GET"
	}
	if path == "/mcp" && strings.Contains(body, mcp.Modern) {
		_, method, _ := strings.Cut(body, `"method":"`)
		method, _, _ = strings.Cut(method, `"`)
		r.header = map[string]string{"MCP-Protocol-Version": mcp.Modern, "Mcp-Method": method}
	}
	_, answer := w.try(t, r, "Bearer "+token)
	return answer
}

// A caller with fewer rights sees less in every list. A name that it may not know looks like a name
// that does not exist.
func TestSights(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	md := func(t *testing.T, token string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	}
	lists := map[string]func(t *testing.T, token string) string{
		"tools/list": func(t *testing.T, token string) string { return w.as(t, token, "/mcp", modern("tools/list", `"x":1`)) },
		"prompts/list": func(t *testing.T, token string) string {
			return w.as(t, token, "/mcp", modern("prompts/list", `"x":1`))
		},
		"resources/list": func(t *testing.T, token string) string {
			return w.as(t, token, "/mcp", modern("resources/list", `"x":1`))
		},
		"resources/templates/list": func(t *testing.T, token string) string {
			return w.as(t, token, "/mcp", modern("resources/templates/list", `"x":1`))
		},
		"legacy tools/list": func(t *testing.T, token string) string {
			return w.as(t, token, "/mcp", legacyMessage("tools/list", ``))
		},
		"legacy prompts/list": func(t *testing.T, token string) string {
			return w.as(t, token, "/mcp", legacyMessage("prompts/list", ``))
		},
		"REST tools":     func(t *testing.T, token string) string { return w.as(t, token, "/tools", "") },
		"REST prompts":   func(t *testing.T, token string) string { return w.as(t, token, "/prompts", "") },
		"REST resources": func(t *testing.T, token string) string { return w.as(t, token, "/resources", "") },
		"the page at /":  func(t *testing.T, token string) string { return w.as(t, token, "/", "") },
		"GraphQL": func(t *testing.T, token string) string {
			return w.as(t, token, "/graphql", `{"query":"{getTools{name} getPrompts{name} getResources{uri}}"}`)
		},
		"gRPC": func(t *testing.T, token string) string {
			var all strings.Builder
			tools, err := w.grpc.ListTools(md(t, token), &gatewayv1.ListToolsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			prompts, err := w.grpc.ListPrompts(md(t, token), &gatewayv1.ListPromptsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			resources, err := w.grpc.ListResources(md(t, token), &gatewayv1.ListResourcesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range tools.Tools {
				all.WriteString(x.Name + " ")
			}
			for _, x := range append(prompts.Prompts, resources.Resources...) {
				all.Write(x)
			}
			return all.String()
		},
	}
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			everything, hers := list(t, ada), list(t, eve)
			shown, hidden := "seen", "hidden"
			if strings.Contains(strings.ToLower(name), "tools") {
				shown, hidden = "look", "plain"
			}
			if !strings.Contains(everything, shown) || !strings.Contains(everything, hidden) {
				t.Errorf("ada sees %.300s", everything)
			}
			if !strings.Contains(hers, shown) || strings.Contains(hers, hidden) {
				t.Errorf("eve sees %.300s", hers)
			}
			if strings.Contains(everything, "cacheScope") && (strings.Contains(hers, `"cacheScope":"public"`) || !strings.Contains(everything, `"cacheScope":"public"`)) {
				t.Errorf("kept for others: %.300s", hers)
			}
		})
	}
	never := "plaim" // as long as the one that is there
	for name, call := range map[string]func(t *testing.T, tool string) string{
		"REST":        func(t *testing.T, tool string) string { return w.as(t, eve, "/tools/"+tool, `{}`) },
		"REST, entry": func(t *testing.T, tool string) string { return w.as(t, eve, "/tools/"+tool, "") },
		"prompt": func(t *testing.T, tool string) string {
			return w.as(t, eve, "/prompts/"+strings.Replace(tool, "plai", "hidde", 1), `{}`)
		},
		"resource": func(t *testing.T, tool string) string {
			return w.as(t, eve, "/resources?uri=doors://"+strings.Replace(tool, "plai", "hidde", 1), "")
		},
		"legacy": func(t *testing.T, tool string) string {
			return w.as(t, eve, "/mcp", legacyMessage("tools/call", `"name":"`+tool+`"`))
		},
		"envelope": func(t *testing.T, tool string) string {
			return w.as(t, eve, "/v1", `{"version":"1.0","action":{"name":"`+tool+`"}}`)
		},
		"GraphQL": func(t *testing.T, tool string) string {
			return w.as(t, eve, "/graphql", `{"query":"mutation{executeTool(input:{name:\"`+tool+`\"}){is_error}}"}`)
		},
	} {
		t.Run("unknown, "+name, func(t *testing.T) {
			is, isNot := call(t, "plain"), call(t, never)
			if !strings.Contains(is, "nknown") && !strings.Contains(is, "not found") || strings.NewReplacer("plain", never, "hidden", "hiddem").Replace(is) != isNot {
				t.Errorf("of what is there: %s\nof what is not: %s", is, isNot)
			}
		})
	}
	if got := w.as(t, eve, "/tools/look", `{"key":"sight"}`); !strings.Contains(got, "done") {
		t.Errorf("her own tool says %s", got)
	}
}
