// Command edge runs one edge of a Busbar fleet.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/edge"
)

// version is set when a release is built.
var version = "0.1.0-dev"

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	var cmd edge.Command
	k := kong.Parse(&cmd, kong.Name("edge"), kong.Description("One edge of a Busbar fleet: MCP clients on one side, NATS on the other."), kong.Vars{"version": version})
	ctx, stop := lifecycle.Context(context.Background())
	defer stop()
	k.FatalIfErrorf(cmd.Run(ctx, version, os.Stdout))
}
