// Command busbar runs all of Busbar in one process, any single part of it for
// a fleet, and is its command-line client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/edge"
)

// version is set when a release is built.
var version = "0.1.0-dev"

// commandLine is the whole interface; every flag has an environment variable.
type commandLine struct {
	LogLevel slog.Level       `default:"warn" env:"BUSBAR_LOG_LEVEL" placeholder:"LEVEL" help:"Least severe log level: debug, info, warn or error (default ${default})."`
	LogJSON  bool             `name:"log-json" env:"BUSBAR_LOG_JSON" help:"Write the log as JSON."`
	Version  kong.VersionFlag `help:"Print the version."`

	Dev          devCommand     `cmd:"" help:"Run the whole system in this process, on an embedded NATS server."`
	Stdio        stdioCommand   `cmd:"" help:"Serve one MCP client on standard input and output."`
	Edge         edgeCommand    `cmd:"" help:"Run one edge of a fleet."`
	Text         partCommand    `cmd:"" group:"services" help:"Run one instance of the text service."`
	Github       partCommand    `cmd:"" group:"services" help:"Run one instance of the github service."`
	Prompt       partCommand    `cmd:"" group:"services" help:"Run one instance of the prompt service."`
	Resource     partCommand    `cmd:"" group:"services" help:"Run one instance of the resource service."`
	Model        partCommand    `cmd:"" group:"services" help:"Run one instance of the model service, for sampling; it needs BUSBAR_MODEL_PROVIDER."`
	Tools        toolsCommand   `cmd:"" help:"List the tools of an edge."`
	Call         callCommand    `cmd:"" help:"Call a tool."`
	Batch        batchCommand   `cmd:"" help:"Make the calls of a file beside each other."`
	Approve      approveCommand `cmd:"" help:"Decide on calls that are held, or list them."`
	Planning     partCommand    `cmd:"" group:"services" help:"Run one instance of the planning service."`
	BatchService partCommand    `cmd:"" name:"batch-service" group:"services" help:"Run one instance of the batch service, which gives models the tool batch."`
	Services     serviceCommand `cmd:"" help:"List the services of a bus, or give a name to one of them."`
	Audit        auditCommands  `cmd:"" help:"Read the audit trail, or run the service that keeps it."`
}

const description = `Busbar serves the Model Context Protocol from independent services on a NATS bus.

Start with "busbar dev", then "busbar tools" in a second terminal.`

// stdout is where ready lines, and nothing else of a server, go.
type stdout struct{ io.Writer }

func main() {
	var cl commandLine
	parser, err := kong.New(&cl, kong.Name("busbar"), kong.Description(description),
		kong.Vars{"version": version, "default_url": client.DefaultURL}, kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		panic(err) // the tags above are wrong
	}
	partExamples(parser.Model.Children)
	k, err := parser.Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "busbar: %v\nTry \"busbar --help\".\n", err)
		os.Exit(2)
	}
	slog.SetDefault(newLogger(cl.LogLevel, cl.LogJSON))
	ctx, stop := lifecycle.Context(context.Background())
	k.BindTo(ctx, (*context.Context)(nil))
	k.Bind(stdout{os.Stdout})
	err = k.Run()
	stop()
	if err == nil {
		return
	}
	var code exitCode
	if errors.As(err, &code) {
		os.Exit(int(code))
	}
	fmt.Fprintf(os.Stderr, "busbar: %v\n", err)
	os.Exit(1)
}

// exitCode is the status of a command that has said everything itself.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// newLogger logs to standard error: standard output belongs to results, and to
// the protocol under stdio.
func newLogger(level slog.Level, asJSON bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}

type edgeCommand struct{ edge.Command }

func (c *edgeCommand) Run(ctx context.Context, out stdout) error {
	return c.Command.Run(ctx, version, out)
}

type serviceCommand struct {
	List   listServices `cmd:"" default:"withargs" help:"List services, their instances and versions, what they offer, and names that two offer."`
	Assign assignName   `cmd:"" help:"Give a name to a service, whoever has it."`
}

type listServices struct{ edge.ListServices }

func (c *listServices) Run(ctx context.Context, out stdout) error {
	return c.ListServices.Run(ctx, out)
}

type assignName struct{ edge.AssignName }

func (c *assignName) Run(ctx context.Context, out stdout) error { return c.AssignName.Run(ctx, out) }
