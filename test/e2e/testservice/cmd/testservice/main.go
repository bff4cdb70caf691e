// Command testservice puts the service of the end-to-end tests on a bus, for
// clients that are not written in Go.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/e2e/testservice"
)

func main() { service.Main(testservice.New(&testservice.Ledger{})) }
