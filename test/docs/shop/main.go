// Command shop is the server of two tools, a resource, a template and a prompt that
// docs/explanation/comparison.md counts the lines of; test/bench/peers/shop is the same with the
// official SDK.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

type (
	item struct {
		Name  string `json:"name" schema:"enum=lamp|chair"`
		Price int    `json:"price"`
	}
	which struct {
		Name string `json:"name" jsonschema:"what is sold" schema:"enum=lamp|chair"`
	}
	asked struct {
		Name     string `json:"name" jsonschema:"what is sold" schema:"enum=lamp|chair"`
		Quantity int    `json:"quantity,omitzero" jsonschema:"how many" schema:"minimum=1,maximum=100,default=1"`
	}
	quote struct {
		Total int `json:"total"`
	}
)

var items = map[string]item{"lamp": {"lamp", 30}, "chair": {"chair", 80}}

func build(_ context.Context, env service.Env) (*service.Service, error) {
	s := service.New("shop", service.WithLogger(env.Log), service.WithInstructions("Prices are in euros."))
	service.AddTool(s, service.Tool{Name: "shop_get", Description: "Shows an item.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in which) (item, error) { return items[in.Name], nil })
	service.AddTool(s, service.Tool{Name: "shop_quote", Description: "Says what some cost.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in asked) (quote, error) {
			return quote{items[in.Name].Price * in.Quantity}, nil
		})
	s.AddResource(mcp.Resource{URI: "shop://items", Name: "items", MIMEType: "application/json"},
		func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return asJSON(items)
		})
	service.AddTemplate(s, service.Template{URITemplate: "shop://items/{name}", Name: "item", MIMEType: "application/json"},
		func(_ context.Context, _ *service.Call, in which) ([]mcp.ResourceContents, error) {
			return asJSON(items[in.Name])
		})
	service.AddPrompt(s, service.Prompt{Name: "shop_praise", Description: "Praises an item."},
		func(_ context.Context, _ *service.Call, in which) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(fmt.Sprintf("Praise our %s for %d euros.", in.Name, items[in.Name].Price))}}, nil
		})
	return s, nil
}

func asJSON(v any) ([]mcp.ResourceContents, error) {
	text, err := json.Marshal(v)
	return []mcp.ResourceContents{{Text: string(text)}}, err
}

func main() { service.Main("shop", build) }
