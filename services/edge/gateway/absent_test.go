package gateway_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// replies keeps the answers to requests.
type replies struct{ said []string }

func (*replies) Notify([]byte)                      {}
func (*replies) Send([]byte) bool                   { return false }
func (r *replies) Respond(_ int, m []byte, _ error) { r.said = append(r.said, string(m)) }

// While the bus does not answer, a target that the catalogue does not have may exist. Its caller
// is told to try again, and so are the callers of a target that exists and of one that they may
// not see. Lookups of the doors without a call follow the same rule.
func TestAbsentOrUnavailable(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	w := startOn(t, ns.URL, func(w *world, cfg *gateway.Config) { cfg.Access = w })
	doors := api.New(w.gateway, nil)
	rpc, err := protocol.NewServer(protocol.Config{Info: mcp.Implementation{Name: "busbar", Version: "1"}, Gateway: w.gateway})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rpc.Close)
	caller := api.Caller{Door: "test"}
	looks := map[string]struct {
		find   func() error
		reason fault.Reason
	}{
		"tool":     {func() error { _, err := doors.FindTool(t.Context(), caller, "nope"); return err }, fault.UnknownTool},
		"prompt":   {func() error { _, err := doors.FindPrompt(t.Context(), caller, "nope"); return err }, fault.UnknownPrompt},
		"resource": {func() error { _, err := doors.FindResource(t.Context(), caller, "nope://x"); return err }, fault.UnknownResource},
	}
	ask := func(version, method string, session *store.Session) string {
		m, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"uri":"nope://x","_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.Modern+`","`+mcp.MetaClientCapabilities+`":{}}}}`), mcp.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var r replies
		rpc.Handle(t.Context(), &protocol.Request{Message: &m, Door: "test", Version: version, Session: session, InFlight: protocol.NewInFlight()}, &r)
		return strings.Join(r.said, "\n")
	}
	requests := map[string]func() string{
		"skill":        func() string { return ask(mcp.Modern, mcp.MethodSkillsGet, nil) },
		"directory":    func() string { return ask(mcp.Modern, mcp.MethodDirectoryRead, nil) },
		"subscription": func() string { return ask(mcp.V20251125, mcp.MethodSubscribe, &store.Session{}) },
	}
	atDoors := func(unavailable bool) {
		t.Helper()
		for name, look := range looks {
			reason := look.reason
			if unavailable {
				reason = fault.Unavailable
			}
			if err := look.find(); !fault.Is(err, reason) {
				t.Errorf("%s: %v, want %s", name, err, reason)
			}
		}
		for name, request := range requests {
			if said := request(); strings.Contains(said, string(fault.Unavailable)) != unavailable || !strings.Contains(said, `"error"`) {
				t.Errorf("%s: %s", name, said)
			}
		}
	}
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
	atDoors(false)
	ns.Stop()
	bustest.Eventually(t, "the edge knows that it may not know all", func() bool { return !w.live.Current() })
	atDoors(true)
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
