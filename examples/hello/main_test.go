package main

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

func TestGreet(t *testing.T) {
	bus := servicetest.Start(t, servicetest.Build(t, build, service.Env{}))
	if r := bus.Call("greet", map[string]any{"name": "Ada"}); r.Text != `{"greeting":"Hello, Ada!"}` {
		t.Error(r.Text, r.Err)
	}
}
