package service_test

import (
	"context"
	"fmt"

	"github.com/busbar-mcp/busbar/libs/service"
)

func ExampleAddTool() {
	type greeting struct {
		Name string `json:"name" jsonschema:"whom to greet"`
		Loud bool   `json:"loud,omitzero" jsonschema:"in capitals"`
	}
	type greeted struct {
		Text string `json:"text"`
	}
	s := service.New("hello", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "hello", Description: "Greets somebody.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in greeting) (greeted, error) {
			if in.Name == "" {
				return greeted{}, service.Errorf("whom should I greet? The name is empty")
			}
			return greeted{Text: "Hello, " + in.Name + "!"}, nil
		})
	// In a program: service.Main(s).
	fmt.Println(s.Name())
	// Output: hello
}
