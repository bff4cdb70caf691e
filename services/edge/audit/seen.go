package audit

import (
	"time"

	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/redact"
)

// ofEdge is the principal, in the trail, of what an edge does by itself.
const ofEdge = "edge"

// Seen records an observation of the edge about a service, which is not a call: about is
// JSON. It does not wait.
func (t *Trail) Seen(method, name, service string, about []byte) {
	id := bus.NewCallID()
	arguments, note := redact.JSON(about, maxArguments)
	record, err := proto.Marshal(&auditv1.AuditEvent{
		Id: id + "-2", Call: id, TimeUnixNano: uint64(time.Now().UnixNano()), Edge: t.cfg.Edge, Principal: ofEdge, Door: "bus",
		Method: method, Name: plain(name, maxName), Service: service, Outcome: "ok", Executed: string(fault.Yes),
		Arguments: arguments, ArgumentsNote: string(note),
	})
	if err != nil {
		t.drop()
		return
	}
	t.put(auditlog.End, item{ofEdge, record})
}
