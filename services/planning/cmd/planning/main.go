// Command planning serves the planning tools on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/planning"
)

func main() { service.Main("planning", planning.New) }
