package servicetest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

func Example_serviceAddResource() {
	s := service.New("docs", quietly)
	s.AddResource(mcp.Resource{URI: "docs://readme", Name: "readme", MIMEType: "text/plain"},
		func(_ context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: "Read me."}}, nil
		})
	t := &example{}
	defer t.end()
	contents, err := servicetest.Start(t, s).Read("docs://readme")
	fmt.Println(contents[0].Text, err)
	// Output: Read me. <nil>
}

// A template stands for many resources, and completes its variables.
func Example_serviceAddResourceTemplate() {
	cities := []string{"Kraków", "Köln", "Kyiv"}
	s := service.New("weather", quietly)
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "weather://{city}/today", Name: "today"},
		func(_ context.Context, _ *service.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{{URI: uri, Text: "Sun in " + vars["city"]}}, nil
		},
		map[string]service.CompleteFunc{"city": func(_ context.Context, _ *service.Call, typed string, _ map[string]string) ([]string, error) {
			var fit []string
			for _, city := range cities {
				if strings.HasPrefix(city, typed) {
					fit = append(fit, city)
				}
			}
			return fit, nil
		}})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	contents, err := b.Read("weather://Kyiv/today")
	fmt.Println(contents[0].Text, err)
	fmt.Println(b.CompleteResource("weather://{city}/today", "city", "K", nil))
	// Output:
	// Sun in Kyiv <nil>
	// [Kraków Köln Kyiv] <nil>
}

// A service with more resources than its catalogue could hold lists them page by
// page, for each caller.
func Example_serviceListResources() {
	s := service.New("notes", quietly)
	s.AddResourcePrefix("note://", func(_ context.Context, call *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, Text: "a note of " + call.Tenant()}}, nil
	})
	s.ListResources(func(_ context.Context, call *service.Call, cursor string, limit int) (service.ResourcePage, error) {
		return service.ResourcePage{Resources: []mcp.Resource{{URI: "note://1", Name: "one"}}}, nil
	})
	t := &example{}
	defer t.end()
	contents, err := servicetest.Start(t, s).As("ada", "acme").Read("note://1")
	fmt.Println(contents[0].Text, err)
	// Output: a note of acme <nil>
}

func Example_serviceAddPrompt() {
	s := service.New("prompts", quietly)
	s.AddPrompt(
		mcp.Prompt{Name: "review", Description: "Has code reviewed.", Arguments: []mcp.PromptArgument{{Name: "language", Required: true}}},
		func(_ context.Context, _ *service.Call, arguments map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Review this " + arguments["language"] + " code.")}}, nil
		},
		map[string]service.CompleteFunc{"language": func(context.Context, *service.Call, string, map[string]string) ([]string, error) {
			return []string{"Go", "Rust"}, nil
		}})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	messages, err := b.Prompt("review", map[string]string{"language": "Go"})
	fmt.Println(messages[0].Role, messages[0].Text, err)
	fmt.Println(b.CompletePrompt("review", "language", "", nil))
	// Output:
	// user Review this Go code. <nil>
	// [Go Rust] <nil>
}

// Prompts of a tenant are listed and rendered only for its principals. Here every tenant has one
// prompt.
func Example_serviceListPrompts() {
	greeting := func(call *service.Call) service.ServedPrompt {
		tenant := call.Tenant()
		return service.ServedPrompt{
			Prompt: mcp.Prompt{Name: "greeting", Description: "Greets for " + tenant},
			Render: func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
				return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Say hello for " + tenant + ".")}}, nil
			},
		}
	}
	s := service.New("prompts", quietly)
	s.ListPrompts(
		func(_ context.Context, call *service.Call, cursor string, limit int) (service.PromptPage, error) {
			return service.PromptPage{Prompts: []mcp.Prompt{greeting(call).Prompt}}, nil
		},
		func(_ context.Context, call *service.Call, name string) (*service.ServedPrompt, error) {
			if name != "greeting" {
				return nil, nil
			}
			p := greeting(call)
			return &p, nil
		})
	t := &example{}
	defer t.end()
	b := servicetest.Start(t, s)
	messages, err := b.As("ada", "acme").Prompt("greeting", nil)
	fmt.Println(messages[0].Text, err)
	_, err = b.Prompt("greeting", nil) // of no tenant
	fmt.Println(err)
	// Output:
	// Say hello for acme. <nil>
	// Unknown prompt: greeting
}
