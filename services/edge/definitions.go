package edge

import (
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// methodRedefined is the method, in the audit trail, of a service's change of a tool's
// definition.
const methodRedefined = "busbar/tool.redefined"

// maxDifferences bounds the recorded differences of a change.
const maxDifferences = 32

// redefined records and logs that a service has changed a tool's definition.
func (e *Edge) redefined(r catalogue.Redefined) {
	class := definition.ClassOf(r.Differences)
	e.cfg.Logger.Warn("a service says otherwise of its tool", "tool", r.After.Tool, "service", r.After.Service, "before", r.Before.Service, "change", class)
	if e.trail == nil {
		return
	}
	about, err := json.Marshal(map[string]any{
		"change": class, "differences": r.Differences[:min(len(r.Differences), maxDifferences)],
		"service_before": r.Before.Service, "digest_before": r.Before.Digest, "digest": r.After.Digest,
	}, json.Deterministic(true))
	if err != nil { // only texts changed
		return
	}
	e.trail.Seen(methodRedefined, r.After.Tool, r.After.Service, about)
}
