package bus

import (
	"maps"
	"sync"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// maxCountedTools limits the tools of which one instance keeps counts.
// Calls of further tools count only in the total of the instance.
const maxCountedTools = 256

// ToolStats are counts of the calls of one tool since its instance started.
type ToolStats struct {
	Served int64 `json:"served"`
	Failed int64 `json:"failed"`
	// TookNano is the total time of these calls.
	TookNano int64 `json:"took_ns"`
}

// toolCounts are the counts of an instance by tool.
type toolCounts struct {
	mu     sync.Mutex
	byName map[string]ToolStats
}

// add counts a call that ended. Calls of tools that do not exist are not counted.
func (c *toolCounts) add(req *busv1.Request, f *fault.Error, took time.Duration) {
	if req.Method != mcp.MethodToolsCall || f != nil && f.Reason == fault.UnknownTool {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := c.byName[req.Name]
	if !known && len(c.byName) >= maxCountedTools {
		return
	}
	if c.byName == nil {
		c.byName = map[string]ToolStats{}
	}
	now.Served++
	now.TookNano += int64(took)
	if f != nil {
		now.Failed++
	}
	c.byName[req.Name] = now
}

// now returns a copy of the counts.
func (c *toolCounts) now() map[string]ToolStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName)
}
