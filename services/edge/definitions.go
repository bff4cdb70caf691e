package edge

import (
	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// methodRedefined is how the audit trail names that a service says otherwise of a tool.
const methodRedefined = "busbar/tool.redefined"

// maxDifferences bounds the differences of a change that are recorded.
const maxDifferences = 32

// redefined records that a service says otherwise of a tool, and logs it.
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
	if err != nil { // texts alone
		return
	}
	e.trail.Seen(methodRedefined, r.After.Tool, r.After.Service, about)
}
