package gateway_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// While the bus does not answer, a target that the catalogue does not have may exist. Its caller
// is told to try again, and so are the callers of a target that exists and of one that they may
// not see.
func TestAbsentOrUnavailable(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	w := startOn(t, ns.URL, func(w *world, cfg *gateway.Config) { cfg.Access = w })
	calls := []struct {
		call   *gateway.Call
		reason fault.Reason
	}{
		{toolCall("nope", `{}`), fault.UnknownTool},
		{&gateway.Call{Door: "test", Method: mcp.MethodPromptsGet, Name: "nope"}, fault.UnknownPrompt},
		{&gateway.Call{Door: "test", Method: mcp.MethodResourcesRead, Name: "nope://x"}, fault.UnknownResource},
	}
	bustest.Eventually(t, "the edge knows all", w.live.Current)
	for _, c := range calls {
		w.fails(t, c.call, c.reason, fault.No)
	}
	ns.Stop()
	bustest.Eventually(t, "the edge knows that it may not know all", func() bool { return !w.live.Current() })
	for _, c := range calls {
		if f := w.fails(t, c.call, fault.Unavailable, fault.No); f.RetryAfter == 0 {
			t.Errorf("%s: the caller is not told when to try again", c.call.Name)
		}
	}
	if f := w.fails(t, toolCall("echo", `{}`), fault.Unavailable, fault.No); f.RetryAfter == 0 {
		t.Error("the caller of a tool that is there is not told when to try again")
	}
	seen := w.fails(t, toolCall("nope", `{}`), fault.Unavailable, fault.No)
	w.mu.Lock()
	w.refuse = map[string]error{"authorize": gateway.ErrUnseen}
	w.mu.Unlock()
	if hidden := w.fails(t, toolCall("echo", `{}`), fault.Unavailable, fault.No); hidden.Message != seen.Message {
		t.Errorf("a tool that its caller may not see is told apart: %q, %q", hidden.Message, seen.Message)
	}
	ns.Restart()
	bustest.Eventually(t, "the edge knows all again", w.live.Current)
	w.fails(t, calls[0].call, calls[0].reason, fault.No)
}
