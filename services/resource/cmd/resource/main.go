// Command resource serves resources on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
)

func main() { service.Main("resource", resource.New) }
