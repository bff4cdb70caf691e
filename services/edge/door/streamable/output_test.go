package streamable_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestResultsThatAreNoObjects shows tools with any output to modern clients, and to
// others only those that their version allows: with objects.
func TestResultsThatAreNoObjects(t *testing.T) {
	t.Parallel()
	w := start(t)
	old := w.initialize(t, mcp.V20251125)
	const schema, structured = `"outputSchema":{"type":"number"}`, `"structuredContent":1.5`
	for name, c := range map[string]struct {
		list, call reply
		shown      bool
	}{
		"modern": {w.post(t, modern(mcp.MethodToolsList, ""), edgetest.Request("1", mcp.MethodToolsList, "")), w.call(t, "number", `{"n":1.5}`), true},
		"legacy": {w.post(t, old, edgetest.Legacy("1", mcp.MethodToolsList, "")), w.post(t, old, edgetest.LegacyCall("1", "number", `{"n":1.5}`)), false},
	} {
		if !strings.Contains(string(c.list.body), `"name":"number"`) || strings.Contains(string(c.list.body), schema) != c.shown {
			t.Errorf("%s: list %s", name, c.list.body)
		}
		if c.call.answer(t).Text() != "1.5" || strings.Contains(string(c.call.body), structured) != c.shown {
			t.Errorf("%s: call %s", name, c.call.body)
		}
	}
}
