package gateway_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// replies keeps the answers to requests.
type replies struct{ said []string }

func (*replies) Notify([]byte)                      {}
func (*replies) Send([]byte) bool                   { return false }
func (r *replies) Respond(_ int, m []byte, _ error) { r.said = append(r.said, string(m)) }

// Lookups of the doors without a call follow the rule of calls: while the bus does not answer, a
// name that the catalogue does not have is unavailable, not unknown.
func TestAbsentAtTheDoors(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	w := startOn(t, ns.URL, nil)
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
	expect := func(unavailable bool) {
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
	bustest.Eventually(t, "the edge knows all", w.live.Current)
	expect(false)
	ns.Stop()
	bustest.Eventually(t, "the edge knows that it may not know all", func() bool { return !w.live.Current() })
	expect(true)
}
