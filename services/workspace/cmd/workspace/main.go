// Command workspace serves files, git and CI on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace"
)

func main() { service.Main("workspace", workspace.New) }
