// Command batch serves the tool batch on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/batch"
)

func main() { service.Main("batch", batch.New) }
