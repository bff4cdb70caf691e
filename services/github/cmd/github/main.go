// Command github serves the GitHub tools on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/github"
)

func main() { service.Main("github", github.New) }
