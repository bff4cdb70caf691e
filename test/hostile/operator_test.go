package hostile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/services/edge"
)

// An operator does with the operators' secret what operators do.
func TestOperators(t *testing.T) {
	w := newWorld(t)
	as := join.Flags{NATS: w.fleet.URL, Proof: join.Proof{NKey: w.fleet.Dir.Path(permission.Operator)}}
	var out bytes.Buffer
	list := edge.ListServices{}
	list.Flags = as
	if err := list.Run(t.Context(), &out); err != nil || !strings.Contains(out.String(), "text") {
		t.Errorf("lists %q, %v", out.String(), err)
	}
	assign := edge.AssignName{Name: "tools/append", Service: "text"}
	assign.Flags = as
	if err := assign.Run(t.Context(), &out); err != nil {
		t.Errorf("assigns: %v", err)
	}
	conn := w.fleet.Join(t, permission.Operator, quiet)
	for _, at := range []string{"$SRV.PING", "$SRV.INFO.text", "$SRV.STATS.text"} {
		if msg, err := conn.NATS().Request(at, nil, bustest.Promptly); err != nil || !strings.Contains(string(msg.Data), `"text"`) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if err := conn.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	// A person without a secret cannot join, and is told what to do.
	if _, err := (join.Flags{NATS: w.fleet.URL}).Connect(bounded(t), permission.Operator, "nobody"); err == nil || !strings.Contains(err.Error(), "--nats-nkey") {
		t.Errorf("without a secret: %v", err)
	}
}
