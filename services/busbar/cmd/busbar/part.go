package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

// partCommand runs one service, the one that the command is called.
type partCommand struct {
	NATS        string `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
	DatabaseURL string `env:"BUSBAR_DATABASE_URL" placeholder:"URL" help:"Postgres, postgres://user:password@host/name, for a service that stores something. Without it, SQLite in the data directory."`
	DataDir     string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Where SQLite keeps its files. Default $XDG_STATE_HOME/busbar/ or ~/.local/state/busbar/, and the name of the service."`
}

// partExamples gives each command that runs a service an example, with its name.
func partExamples(commands []*kong.Node) {
	for _, c := range commands {
		if c.Target.Type() == reflect.TypeFor[partCommand]() {
			c.Detail = "Example: busbar " + c.Name + " --nats nats://127.0.0.1:4222"
		}
	}
}

func (c *partCommand) Run(ctx context.Context, k *kong.Context, out stdout) error {
	// "batch" is the command that makes a batch.
	name := strings.TrimSuffix(k.Command(), "-service")
	dir, err := dataDir(c.DataDir, name)
	if err != nil {
		return err
	}
	for _, p := range parts() {
		if p.name == name {
			return c.run(ctx, p, settings{databaseURL: c.DatabaseURL, dataDir: string(dir)}, out)
		}
	}
	return fmt.Errorf("no service is called %s", name)
}

func (c *partCommand) run(ctx context.Context, p part, s settings, out stdout) error {
	conn, err := bus.Connect(ctx, bus.Config{URL: c.NATS, Name: p.name})
	if err != nil {
		return err
	}
	defer conn.Close()
	running, err := p.start(ctx, conn, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "busbar %s is ready: nats=%s\n", p.name, conn.URL())
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	return running.Stop(drain)
}
