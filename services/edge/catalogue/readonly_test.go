package catalogue_test

import (
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A service's declaration that a tool changes nothing counts as far as the policy file allows.
// Any other call is recorded before it runs, and is neither repeated nor kept.
func TestReadOnlyIsGranted(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, change := granting(t, url, `services: {svc: {offers: ["*"]}}`)
	var tools []*busv1.Tool
	for _, name := range []string{"get_x", "drop_x", "set_x"} {
		one := tool(name)
		one.ReadOnly, one.CacheMs = name != "set_x", 1000
		one.Idempotent = name == "set_x"
		tools = append(tools, one)
	}
	announce(t, url, &busv1.Catalogue{Service: "svc", Tools: tools})
	is := func(name string, readOnly, idempotent bool) func() bool {
		return func() bool {
			x, ok := live.Now().Tool(name)
			return ok && x.Tool.ReadOnly == readOnly && x.Tool.Idempotent == idempotent && (x.Tool.Cache > 0) == (readOnly || idempotent)
		}
	}
	bustest.Eventually(t, "without the key its word counts", func() bool {
		return is("get_x", true, false)() && is("drop_x", true, false)() && is("set_x", false, true)()
	})
	change(`services: {svc: {offers: ["*"], read_only: ["tools/get_*"]}}`)
	bustest.Eventually(t, "with it no other tool is read-only", func() bool {
		return is("get_x", true, false)() && is("drop_x", false, false)() && is("set_x", false, false)()
	})
	if p := strings.Join(live.Now().Ungranted(), "\n"); !strings.Contains(p, "change nothing, or nothing twice; services.svc.read_only of the policy file does not grant it, so they count as tools that do") {
		t.Errorf("operators are told %q", p)
	}
	change(`services: {"*": {offers: ["*"], read_only: []}}`)
	bustest.Eventually(t, "none at all", func() bool { return is("get_x", false, false)() && is("set_x", false, false)() })
}
