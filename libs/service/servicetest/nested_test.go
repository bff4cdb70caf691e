package servicetest_test

import (
	"context"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// A handler may return the failure of a nested tool unchanged: its client is not told that nothing
// ran if another tool has run before.
func TestFailureAfterANestedEffect(t *testing.T) {
	t.Parallel()
	s := service.New("chain")
	service.AddTool(s, service.Tool{Name: "both", CallsTools: true}, func(ctx context.Context, c *service.Call, in struct {
		First bool `json:"first"`
	}) (string, error) {
		if in.First {
			if _, err := c.CallTool(ctx, service.ToolCall{Name: "works"}); err != nil {
				return "", err
			}
		}
		_, err := c.CallTool(ctx, service.ToolCall{Name: "gone"})
		return "", err
	})
	b := servicetest.Start(t, s)
	b.Stub("works", func([]byte) (any, error) { return "done", nil })
	for first, want := range map[bool]fault.Executed{false: fault.No, true: fault.Unknown} {
		r := b.Call("both", map[string]bool{"first": first})
		if f := fault.From(r.Err); f == nil || f.Reason != fault.UnknownTool || f.Executed != want {
			t.Errorf("first: %t: %v %v, want executed %s", first, r.Err, r.Text, want)
		}
	}
}
