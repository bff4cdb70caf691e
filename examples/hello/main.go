// Command hello is a complete Busbar service: one tool, on the bus.
package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/service"
)

type person struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

type greeting struct {
	Greeting string `json:"greeting"`
}

func greet(_ context.Context, _ *service.Call, p person) (greeting, error) {
	return greeting{"Hello, " + p.Name + "!"}, nil
}

func build(context.Context, service.Env) (*service.Service, error) {
	s := service.New("hello", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "greet", Description: "Greets someone by name.", ReadOnly: true}, greet)
	return s, nil
}

func main() { service.Main("hello", build) }
