// Command text serves the text tools on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/text"
)

func main() { service.Main("text", text.New) }
