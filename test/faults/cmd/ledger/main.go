// Command ledger is the service of test/faults that counts what runs.
package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/faults/ledger"
)

type settings struct {
	service.Env
	File string `env:"LEDGER_FILE" required:"" help:"File with a line for each execution."`
}

func main() {
	service.Main("ledger", func(_ context.Context, s settings) (*service.Service, error) { return ledger.New(s.File) })
}
