// Command edge runs one edge of a Busbar fleet.
package main

import (
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/edge"
)

func main() {
	var program struct {
		lifecycle.Flags
		edge.Command
	}
	lifecycle.Main("edge", "One edge of a Busbar fleet: MCP clients on one side, NATS on the other.", &program)
}
