// Command batch serves the tool batch on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/batch"
)

// version is set at build time: -ldflags "-X main.version=1.2.3".
var version = "0.0.0"

func main() { service.Main(batch.New(version)) }
