// Command conformance-service puts the service that the MCP conformance suite
// expects on a bus.
package main

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/conformance/fixture"
)

func main() {
	s := fixture.New()
	go func() {
		for range time.Tick(fixture.WatchedEvery) {
			s.ResourceUpdated(fixture.Watched)
		}
	}()
	service.Main(s)
}
