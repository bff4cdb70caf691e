// Command testservice puts the service of the end-to-end tests on a bus, for
// clients that are not written in Go.
package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/testservice"
)

func main() {
	service.Main("testservice", func(context.Context, service.Env) (*service.Service, error) {
		return testservice.New(&testservice.Ledger{}), nil
	})
}
