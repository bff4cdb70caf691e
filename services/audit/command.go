package audit

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

// Command is the command line of an instance that runs as its own process. The
// tags are read by kong.
type Command struct {
	NATS        string        `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
	DatabaseURL string        `env:"BUSBAR_DATABASE_URL" placeholder:"URL" help:"Postgres to keep the trail in, as postgres://user:password@host:5432/name. Without it, a file in the data directory."`
	DataDir     string        `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Where the key, and without Postgres the trail, is kept. Default $XDG_STATE_HOME/busbar/audit or ~/.local/state/busbar/audit."`
	Key         string        `env:"BUSBAR_AUDIT_KEY" placeholder:"BASE64" help:"Key to sign with: 32 random bytes in base64. Without it, audit.key in the data directory."`
	Retention   time.Duration `default:"2160h" env:"BUSBAR_AUDIT_RETENTION" placeholder:"TIME" help:"How long events are kept; negative is for ever (default ${default}, 90 days)."`
}

// startTime bounds the start.
const startTime = 30 * time.Second

// Run serves until ctx ends. The line that says it is ready goes to out.
func (c *Command) Run(ctx context.Context, version string, out io.Writer) error {
	cfg := Config{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir, Retention: c.Retention, Version: version}
	if c.Key != "" {
		key, err := ParseKey(c.Key)
		if err != nil {
			return err
		}
		cfg.Key = key
	}
	if cfg.DataDir == "" {
		dir, err := database.Dir(Name)
		if err != nil {
			return err
		}
		cfg.DataDir = dir
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	s, err := New(starting, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	conn, err := bus.Connect(starting, bus.Config{URL: c.NATS, Name: Name})
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := s.Start(starting, conn)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "busbar audit is ready: nats=%s\n", conn.URL())
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	return r.Stop(drain)
}
