// Command audit keeps the audit trail of a Busbar bus.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/audit"
)

// version is set at build time: -ldflags "-X main.version=1.2.3".
var version = "0.0.0"

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	var cmd audit.Command
	k := kong.Parse(&cmd, kong.Name("audit"), kong.Description("Keeps the audit trail of a Busbar bus."), kong.Vars{"version": version})
	ctx, stop := lifecycle.Context(context.Background())
	defer stop()
	k.FatalIfErrorf(cmd.Run(ctx, version, os.Stdout))
}
