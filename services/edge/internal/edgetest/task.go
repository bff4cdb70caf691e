package edgetest

import (
	"context"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// addTasks adds the tools whose calls become tasks.
func (s *Service) addTasks() {
	task := func(name string, mode service.TaskMode, f func(ctx context.Context, c *service.Call, in []byte) (*service.Result, error)) {
		s.add(service.Tool{Name: name, Task: mode}, f)
	}
	task("later", service.TaskOptional, func(_ context.Context, _ *service.Call, in []byte) (*service.Result, error) {
		return Text(string(in)), nil
	})
	task("hold-task", service.TaskRequired, s.hold)
	task("ask-task", service.TaskRequired, func(_ context.Context, c *service.Call, _ []byte) (*service.Result, error) {
		form := map[string]any{"type": "object", "properties": map[string]any{}}
		_, err := c.Ask(service.Elicit("one", "One?", form), service.Elicit("two", "Two?", form))
		return Text("answered"), err
	})
	task("break-task", service.TaskRequired, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return nil, fault.New(fault.Conflict, "not\nnow").With([]byte(`{"detail":"d"}`))
	})
	task("big-task", service.TaskRequired, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return Text(strings.Repeat("x", 1<<20)), nil
	})
}

// TakingTasks is a modern request whose client accepts tasks.
func TakingTasks(request string) string {
	return strings.Replace(request, `"elicitation":{}`, `"elicitation":{},"extensions":{"`+mcp.ExtensionTasks+`":{}}`, 1)
}
