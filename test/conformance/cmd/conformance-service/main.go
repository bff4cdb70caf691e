// Command conformance-service puts the service that the MCP conformance suite
// expects on a bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/conformance/fixture"
)

func main() { service.Main("conformance", fixture.Build) }
