package testservice

import (
	"context"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// addAsking adds a tool for each question that a service may ask, named for its
// key.
func addAsking(s *service.Service, ledger *Ledger) {
	form := map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
	}
	hello := []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Hello?")}}
	for tool, asks := range map[string]struct {
		question service.Question
		read     func(*service.Answers) (string, error)
	}{
		"ask": {service.Elicit("ask", "Who are you?", form), func(a *service.Answers) (string, error) {
			var in struct {
				Name string `json:"name"`
			}
			action, err := a.Elicited("ask", &in)
			return action + " " + in.Name, err
		}},
		"sampling": {service.Sample("sampling", service.Sampling{Messages: hello, MaxTokens: 10}), func(a *service.Answers) (string, error) {
			m, err := a.Sampled("sampling")
			if err != nil {
				return "", err
			}
			return m.Model + " " + m.Text(), nil
		}},
		"roots": {service.Roots("roots"), func(a *service.Answers) (string, error) {
			roots, err := a.Roots("roots")
			if err != nil || len(roots) != 1 {
				return fmt.Sprint(len(roots), " roots"), err
			}
			return roots[0].Name + " " + roots[0].URI, nil
		}},
	} {
		service.AddTool(s, service.Tool{Name: tool}, func(_ context.Context, call *service.Call, in anyKey) (value, error) {
			ledger.Add(in.Key)
			answers, err := call.Ask(asks.question)
			if err != nil {
				return value{}, err
			}
			said, err := asks.read(answers)
			return value{said}, err
		})
	}
}
