package service_test

import (
	"context"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

// If no edge received a call of another tool, its error makes no claim about earlier calls with the
// same idempotency key.
func TestACallThatNoEdgeHeardOfDoesNotSpeakOfItsKey(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(context.Background())
	end()
	var call func(*service.Call) error
	s := quiet(t, "svc")
	service.AddTool(s, service.Tool{Name: "t", CallsTools: true}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		return "", call(c)
	})
	c := run(t, s)
	for name, ctx := range map[string]context.Context{"no edge is there": t.Context(), "it ended before": over} {
		for key, want := range map[string]fault.Executed{"": fault.No, "k": fault.Unknown} {
			call = func(c *service.Call) error {
				_, err := c.CallTool(ctx, service.ToolCall{Name: "other", IdempotencyKey: key})
				return err
			}
			req := tool("t", `{}`)
			req.Delegation = []byte("x")
			if _, err := c.do(req, nil); err == nil || fault.From(err).Executed != want {
				t.Errorf("%s, key %q: %v, want executed %s", name, key, err, want)
			}
		}
	}
}
