package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/service"
)

func main() {
	s := service.New("strings")
	service.AddTool(s, service.Tool{Name: "test_simple_text", Description: "x"}, func(context.Context, *service.Call, struct{}) (string, error) { return "x", nil })
	service.Main(s)
}
