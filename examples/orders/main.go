// Command orders is an order service on a Busbar bus: five tools, two resources, a
// template and a prompt. docs/guides/service.md explains what it uses.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

type (
	which struct {
		ID int `json:"id" jsonschema:"number of the order" schema:"minimum=1"`
	}
	placing struct {
		Item     string `json:"item" schema:"minLength=1,maxLength=40,examples=lamp|chair"`
		Quantity int    `json:"quantity" schema:"minimum=1,maximum=100,default=1"`
	}
	filter struct {
		Status string `json:"status" schema:"enum=open|shipped|cancelled,default=open"`
	}
	list struct {
		Orders []order `json:"orders"`
	}
	reason struct {
		Reason string `json:"reason" jsonschema:"why it is cancelled" schema:"enum=late|wrong|changed my mind"`
	}
	complaint struct {
		ID   int    `json:"id" jsonschema:"number of the order" schema:"minimum=1"`
		Tone string `json:"tone" schema:"enum=polite|firm,default=polite"`
	}
)

func build(_ context.Context, env service.Env) (*service.Service, error) {
	s := service.New("orders", service.WithVersion(env.Version), service.WithLogger(env.Log), service.WithNamespace("orders"), service.WithDescription("Orders of a shop"))
	db := newStore()
	service.AddTool(s, service.Tool{Name: "place", Description: "Places an order."},
		func(_ context.Context, call *service.Call, in placing) (order, error) {
			o, err := db.place(call.Principal(), in.Item, in.Quantity)
			if err == nil {
				call.Logger().Info("order placed", "order", o.ID)
				s.ResourceUpdated("orders://open")
			}
			return o, err
		})
	service.AddTool(s, service.Tool{Name: "get", Description: "Shows an order.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in which) (order, error) { return db.get(in.ID) })
	service.AddTool(s, service.Tool{Name: "list", Description: "Lists the orders of one status.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in filter) (list, error) {
			return list{db.list(in.Status)}, nil
		})
	service.AddTool(s, service.Tool{Name: "cancel", Description: "Cancels an order of the caller, who is asked why."},
		func(_ context.Context, call *service.Call, in which) (order, error) {
			why, action, err := service.AskFor[reason](call, "why", fmt.Sprintf("Why is order %d cancelled?", in.ID))
			switch {
			case err != nil:
				return order{}, err
			case action != service.Accepted:
				return order{}, service.Errorf("order %d stays: nobody said why it should be cancelled", in.ID)
			}
			call.Logger().Info("order cancelled", "order", in.ID, "reason", why.Reason)
			return db.close(in.ID, call.Principal(), "cancelled")
		})
	service.AddTool(s, service.Tool{Name: "ship", Description: "Ships an order.", RequiresUserApproval: true, Task: service.TaskOptional},
		func(_ context.Context, call *service.Call, in which) (order, error) {
			call.Progress(1, 2, "packed")
			return db.close(in.ID, call.Principal(), "shipped")
		})
	for uri, value := range map[string]func() any{"orders://open": func() any { return db.list("open") }, "orders://shipped": func() any { return db.list("shipped") }} {
		s.AddResource(mcp.Resource{URI: uri, Name: uri, MIMEType: "application/json"},
			func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return asJSON(value(), nil)
			})
	}
	service.AddTemplate(s, service.Template{URITemplate: "orders://id/{id}", Name: "order", MIMEType: "application/json"},
		func(_ context.Context, _ *service.Call, in which) ([]mcp.ResourceContents, error) {
			return asJSON(db.get(in.ID))
		})
	service.AddPrompt(s, service.Prompt{Name: "complaint", Description: "A letter about an order."},
		func(_ context.Context, _ *service.Call, in complaint) ([]mcp.PromptMessage, error) {
			o, err := db.get(in.ID)
			if err != nil {
				return nil, err
			}
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(fmt.Sprintf(
				"Write a %s letter about order %d: %d of %q, which is %s.", in.Tone, o.ID, o.Quantity, o.Item, o.Status))}}, nil
		})
	return s, nil
}

func asJSON(v any, err error) ([]mcp.ResourceContents, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	return []mcp.ResourceContents{{Text: string(text)}}, err
}

func main() { service.Main("orders", build) }
