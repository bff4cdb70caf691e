// Command shop is test/docs/shop with the official SDK: the server that
// docs/explanation/comparison.md counts the lines of. It prints where it listens.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type (
	item struct {
		Name  string `json:"name"`
		Price int    `json:"price"`
	}
	which struct {
		Name string `json:"name" jsonschema:"what is sold"`
	}
	asked struct {
		Name     string `json:"name" jsonschema:"what is sold"`
		Quantity int    `json:"quantity,omitempty" jsonschema:"how many"`
	}
	quote struct {
		Total int `json:"total"`
	}
)

var items = map[string]item{"lamp": {"lamp", 30}, "chair": {"chair", 80}}

// schema returns the schema of a type, with the keywords that its tags cannot express.
func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		log.Fatal(err)
	}
	s.Properties["name"].Enum = []any{"lamp", "chair"}
	if q := s.Properties["quantity"]; q != nil {
		q.Minimum, q.Maximum, q.Default = jsonschema.Ptr(1.0), jsonschema.Ptr(100.0), json.RawMessage("1")
	}
	return s
}

func build() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "0.0.0"}, &mcp.ServerOptions{Instructions: "Prices are in euros.", CompletionHandler: complete})
	mcp.AddTool(s, &mcp.Tool{Name: "shop_get", Description: "Shows an item.", InputSchema: schema[which](), OutputSchema: schema[item](), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in which) (*mcp.CallToolResult, item, error) {
			return nil, items[in.Name], nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "shop_quote", Description: "Says what some cost.", InputSchema: schema[asked](), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in asked) (*mcp.CallToolResult, quote, error) {
			return nil, quote{items[in.Name].Price * in.Quantity}, nil
		})
	s.AddResource(&mcp.Resource{URI: "shop://items", Name: "items", MIMEType: "application/json"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return asJSON(r.Params.URI, items)
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "shop://items/{name}", Name: "item", MIMEType: "application/json"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			found, ok := items[strings.TrimPrefix(r.Params.URI, "shop://items/")]
			if !ok {
				return nil, mcp.ResourceNotFoundError(r.Params.URI)
			}
			return asJSON(r.Params.URI, found)
		})
	s.AddPrompt(&mcp.Prompt{Name: "shop_praise", Description: "Praises an item.", Arguments: []*mcp.PromptArgument{{Name: "name", Description: "what is sold", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			found, ok := items[r.Params.Arguments["name"]]
			if !ok {
				return nil, fmt.Errorf("name must be lamp or chair")
			}
			text := fmt.Sprintf("Praise our %s for %d euros.", found.Name, found.Price)
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
		})
	return s
}

// complete suggests names for the prompt and the template.
func complete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, name := range []string{"lamp", "chair"} {
		if strings.HasPrefix(name, r.Params.Argument.Value) {
			values = append(values, name)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}

func asJSON(uri string, v any) (*mcp.ReadResourceResult, error) {
	text, err := json.Marshal(v)
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}}}, err
}

func main() {
	s := build()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: true})
	log.Fatal(http.Serve(l, handler))
}
