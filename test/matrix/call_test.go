package matrix

import (
	"context"
	"fmt"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// icons has a list show a tool's icon as its service gave it.
func icons(t *testing.T, _ *world, c *client) {
	for tool, err := range c.Tools(t.Context(), nil) {
		switch {
		case err != nil:
			t.Fatal(err)
		case tool.Name == "drawn":
			if len(tool.Icons) != 1 || tool.Icons[0].Source != icon || tool.Icons[0].MIMEType != "image/png" || len(tool.Icons[0].Sizes) != 1 || tool.Icons[0].Theme != "dark" {
				t.Errorf("%+v", tool.Icons)
			}
			return
		}
	}
	t.Error("the tool is not listed")
}

// plainCall requires that every edge answers a call, in the form of its version.
func plainCall(t *testing.T, _ *world, c *client) {
	const calls = 4
	for i := range calls {
		said := fmt.Sprintf(`{"value":"%d"}`, i)
		if got := c.call("echo", map[string]any{"value": fmt.Sprint(i)}); got != said {
			t.Errorf("call %d answered %s", i, got)
		}
	}
	asked := c.tap.all(sent(mcp.MethodToolsCall))
	if len(asked) != calls {
		t.Fatalf("%d calls were sent, want %d", len(asked), calls)
	}
	c.alternates("one call and the next", asked[0], asked[1])
	for _, r := range asked {
		answers := c.tap.all(func(m message) bool { return m.answers(r) })
		if len(answers) != 1 {
			t.Fatalf("%d answers to %s", len(answers), r.ID)
		}
		kind := answers[0].field("resultType")
		want := ""
		if c.modern() {
			want = `"complete"`
		}
		if kind != want {
			t.Errorf("resultType is %q, want %q", kind, want)
		}
	}
}

// cancelled has the client give a call up: the handler's context ends, and
// nothing more is said of the call. Before 2026-07-28 a notification says so,
// which comes to the other edge; since then a client over HTTP closes the
// response, and the notification is for stdio.
func cancelled(t *testing.T, w *world, c *client) {
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "slow", Arguments: map[string]any{"key": "slow", "ms": time.Hour.Milliseconds()}})
		done <- err
	}()
	bustest.Eventually(t, "the handler runs", func() bool { return w.ledger.Runs("slow started") == 1 })
	call := c.tap.await("the call", sent(mcp.MethodToolsCall))
	giveUp()
	bustest.Eventually(t, "the handler's context ends", func() bool { return w.ledger.Runs("slow cancelled") == 1 })
	if err := receive(t, "the end of the call", done); err == nil {
		t.Error("the call succeeded")
	}
	if !c.modern() || !c.http() {
		said := c.tap.await("the cancellation", sent(mcp.NotifyCancelled))
		if said.param("requestId") != string(call.ID) {
			t.Errorf("cancelled %s, which is not %s", said.Params, call.ID)
		}
		c.alternates("a call and its cancellation", call, said)
	}
	if c.transport == streamableTransport {
		receive(t, "the end of the response", call.on.over)
	}
	if got := c.call("echo", map[string]any{"value": "alive"}); got != `{"value":"alive"}` {
		t.Errorf("answered %s", got)
	}
	if c.modern() && c.http() {
		return // into a response that the client has closed nothing can be sent
	}
	c.end()
	if more := c.tap.all(func(m message) bool { return m.answers(call) }); len(more) > 0 {
		t.Errorf("the cancelled call was answered: %s %s", more[0].Result, more[0].Error)
	}
}
