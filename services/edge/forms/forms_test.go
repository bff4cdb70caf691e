package forms_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// A failure with better advice than its reason's gives it at every door.
func TestNext(t *testing.T) {
	t.Parallel()
	usual := fault.New(fault.UnknownTool, "no")
	for door, want := range map[string]string{
		forms.MCP: "tools/list lists the tools", forms.HTTP: "GET /tools lists the tools", "envelope": "GET /tools lists the tools",
		forms.GraphQL: "getTools lists the tools", forms.GRPC: "ListTools lists the tools", forms.WebSocket: "GET /tools lists the tools",
	} {
		if got := forms.Next(usual, door); got != want {
			t.Errorf("%q: %q", door, got)
		}
		if got := forms.Next(usual.Toward("look there"), door); got != "look there" {
			t.Errorf("%q: %q", door, got)
		}
	}
}

// A caller that knows that nothing ran is not told to check whether it did.
func TestNextOfWhatDidNotRun(t *testing.T) {
	t.Parallel()
	for _, reason := range []fault.Reason{fault.DeadlineExceeded, fault.PeerLost, fault.Cancelled, fault.HistoryLost} {
		for _, door := range []string{forms.MCP, forms.HTTP, forms.GraphQL, forms.GRPC, forms.WebSocket} {
			lost := fault.New(reason, "no").Ran(fault.No)
			if got := forms.Next(lost, door); got != "nothing ran: call again" {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
			if got := forms.Next(lost.Toward("look there"), door); got != "look there" {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
			if got := forms.Next(lost.Ran(fault.Unknown), door); !strings.HasPrefix(got, "look whether it ran") {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
		}
	}
}

// A reason without a form is a defect.
func TestUnknownReason(t *testing.T) {
	t.Parallel()
	if f := forms.ForReason("no_such_reason"); f.GRPC != codes.Internal || f.HTTP != 500 {
		t.Errorf("%+v", f)
	}
}
