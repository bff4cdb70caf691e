package matrix

import (
	"context"
	"slices"
	"strconv"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// progress comes under the client's token, always growing, on the stream of the response. A client
// without a token gets none.
func progress(t *testing.T, _ *world, c *client) {
	params := &sdk.CallToolParams{Name: "progress"}
	c.callWith(params)
	if came := c.tap.all(said(mcp.NotifyProgress)); len(came) > 0 {
		t.Errorf("progress without a token: %s", came[0].Params)
	}
	params.SetProgressToken("a token")
	c.callWith(params)
	for done := 1.0; done <= 3; done++ {
		p := receive(t, "progress", c.progress)
		if p.Progress != done || p.Total != 3 || p.ProgressToken != "a token" || p.Message != "step "+strconv.Itoa(int(done)) {
			t.Errorf("progress %v came as %+v", done, p)
		}
	}
	call := c.tap.all(sent(mcp.MethodToolsCall))[1]
	came := c.tap.all(said(mcp.NotifyProgress))
	if len(came) != 3 {
		t.Errorf("%d times progress, want 3", len(came))
	}
	for _, m := range came {
		c.ownStream(m, call)
	}
}

// logs are of the level that the client set, and above. Before 2026-07-28 a
// request sets it for the session; since then each request has its own, none
// means no logs, and the old method is gone.
func logs(t *testing.T, _ *world, c *client) {
	for i, level := range mcp.LogLevels {
		want, params := mcp.LogLevels[i:], &sdk.CallToolParams{Name: "log"}
		if c.modern() {
			params.Meta = sdk.Meta{sdk.MetaKeyLogLevel: level}
		} else if err := c.SetLoggingLevel(soon(t), &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(level)}); err != nil {
			t.Fatal(err)
		}
		if !c.modern() && c.transport == streamableTransport {
			// The other edge hears of it a moment later.
			bustest.Eventually(t, "logs at level "+level, func() bool { return slices.Equal(c.logsOf(params), want) })
		} else if got := c.logsOf(params); !slices.Equal(got, want) {
			t.Errorf("at level %s came %v", level, got)
		}
	}
	if !c.modern() {
		return
	}
	if got := c.logsOf(&sdk.CallToolParams{Name: "log"}); len(got) > 0 {
		t.Errorf("without a level came %v", got)
	}
	// The SDK leaves this method's _meta to its caller.
	err := c.SetLoggingLevel(soon(t), &sdk.SetLoggingLevelParams{Level: "debug", Meta: sdk.Meta{
		sdk.MetaKeyProtocolVersion: mcp.Modern, sdk.MetaKeyClientCapabilities: map[string]any{},
	}})
	refused(t, err, mcp.CodeMethodNotFound, "method_not_found")
}

// logsOf are the levels of the logs that came with a call's answer.
func (c *client) logsOf(params *sdk.CallToolParams) (levels []string) {
	c.t.Helper()
	before := len(c.tap.all(said(mcp.NotifyMessage)))
	c.callWith(params)
	calls := c.tap.all(sent(mcp.MethodToolsCall))
	for _, m := range c.tap.all(said(mcp.NotifyMessage))[before:] {
		c.ownStream(m, calls[len(calls)-1])
		l := receive(c.t, "the log", c.logs)
		if l.Logger != "testservice" || l.Data != "at "+string(l.Level) {
			c.t.Errorf("a log came as %+v", l)
		}
		levels = append(levels, string(l.Level))
	}
	return levels
}

// listChanged tells the client of each change of the tools once, on its stream
// of changes.
func listChanged(t *testing.T, w *world, c *client) {
	service.AddTool(w.svc, service.Tool{Name: "new"}, func(context.Context, *service.Call, struct{}) (any, error) { return nil, nil })
	receive(t, "tools/list_changed after a tool was added", c.tools)
	w.svc.RemoveTool("new")
	receive(t, "tools/list_changed after a tool was removed", c.tools)
	// A duplicate would come before this.
	w.svc.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	receive(t, "prompts/list_changed", c.prompts)
	came := c.tap.all(said(mcp.NotifyToolsChanged))
	if len(came) != 2 {
		t.Errorf("told %d times of 2 changes", len(came))
	}
	for _, m := range came {
		c.onChanges(m)
	}
}

// resourceUpdated is sent to clients that are subscribed to the resource, and to no others.
func resourceUpdated(t *testing.T, w *world, c *client) {
	other := w.connect(t, c.version, c.transport)
	c.subscribe(noteA)
	other.subscribe(noteB)
	for _, uri := range []string{noteA, noteB, noteA} {
		w.svc.ResourceUpdated(uri)
		want := c
		if uri == noteB {
			want = other
		}
		if got := receive(t, "the update of "+uri, want.updated); got != uri {
			t.Errorf("told of %s, not of %s", got, uri)
		}
	}
	if !c.modern() { // where a subscription ends with its stream
		if err := c.Unsubscribe(soon(t), &sdk.UnsubscribeParams{URI: noteA}); err != nil {
			t.Fatal(err)
		}
		c.subscribe(noteB)
		// The edge of the stream may hear of both a moment later.
		bustest.Eventually(t, "nothing is told without a subscription", func() bool {
			w.svc.ResourceUpdated(noteA)
			w.svc.ResourceUpdated(noteB)
			receive(t, "the update of "+noteB, other.updated)
			got := receive(t, "the update of "+noteB, c.updated)
			for told := got; told != noteB; {
				told = receive(t, "the update of "+noteB, c.updated)
			}
			return got == noteB
		})
	}
	for _, of := range []*client{c, other} {
		for _, m := range of.tap.all(said(mcp.NotifyResourceUpdated)) {
			of.onChanges(m)
			if of == other && m.param("uri") != `"`+noteB+`"` {
				t.Errorf("the other client was told of %s", m.Params)
			}
		}
	}
}

func (c *client) subscribe(uri string) {
	c.t.Helper()
	if err := c.Subscribe(soon(c.t), &sdk.SubscribeParams{URI: uri}); err != nil {
		c.t.Fatal(err)
	}
	if c.modern() {
		c.tap.await("the acknowledgement of "+uri, func(m message) bool {
			return said(mcp.NotifyAcknowledged)(m) && m.param("notifications", "resourceSubscriptions") == `["`+uri+`"]`
		})
	}
}

// onChanges requires that m came on the stream of changes of its version.
func (c *client) onChanges(m message) {
	c.t.Helper()
	switch {
	case c.modern():
		id := m.param("_meta", mcp.MetaSubscriptionID)
		open := c.tap.all(func(r message) bool { return sent(mcp.MethodListen)(r) && string(r.ID) == id })
		if len(open) != 1 || open[0].on != m.on {
			c.t.Errorf("%s came on %s for subscription %q", m.Method, m.on.about, id)
		}
	case c.http() && m.on.about != "GET":
		c.t.Errorf("%s came on %s", m.Method, m.on.about)
	}
}
