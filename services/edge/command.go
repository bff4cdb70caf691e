package edge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/services/edge/operator"
)

// Command is the command line of an edge that runs as its own process. The
// tags are read by kong.
type Command struct {
	ListenFlags
	NATS                 string `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
	DataDir              string `placeholder:"DIR" help:"Directory for the token that lets users of this machine read the audit trail. Default BUSBAR_DATA_DIR, $XDG_STATE_HOME/busbar/edge or ~/.local/state/busbar/edge."`
	AuditSpool           string `env:"BUSBAR_AUDIT_SPOOL" placeholder:"DIR" help:"Where the records of calls wait while the bus does not take them. Without it they wait in memory, and are lost when that is full."`
	AllowUnauthenticated bool   `env:"BUSBAR_ALLOW_UNAUTHENTICATED" help:"Listen on a public address although this version authenticates nobody. Put an authenticating proxy in front."`
}

// Help implements kong's HelpProvider.
func (Command) Help() string {
	return `Example: busbar edge --listen 127.0.0.1:8001 --nats nats://127.0.0.1:4222`
}

// connectTime is how long a starting edge waits for NATS.
const connectTime = 30 * time.Second

// Run serves until ctx ends. The line that says it is ready goes to out.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	l, err := c.Open(c.AllowUnauthenticated)
	if err != nil {
		return err
	}
	defer l.Close()
	cfg := c.Config(lifecycle.Version())
	token, remove, err := IssueToken(c.DataDir, "edge", l)
	if err != nil {
		slog.Warn("nobody can read the audit trail at this edge", "error", err)
	} else {
		defer remove()
		cfg.Audit.Token = token
	}
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := bus.Connect(connecting, bus.Config{URL: c.NATS, Name: "edge"})
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := New(connecting, conn, cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	for _, warning := range e.Warnings() {
		slog.Warn(warning)
	}
	fmt.Fprintf(out, "busbar edge is ready: %s nats=%s\n", l, conn.URL())
	return e.ServeAll(ctx, l)
}

// IssueToken makes the token by which people of this machine read the audit
// trail, in a data directory or the default one of a name.
func IssueToken(dir, name string, l *Listeners) (operator.Token, func(), error) {
	if dir == "" {
		var err error
		if dir, err = lifecycle.DataDir(name); err != nil {
			return "", nil, err
		}
	}
	return operator.Issue(dir, l.HTTP)
}

// Config is what the command line says about the edge itself.
func (c *Command) Config(version string) Config {
	return Config{Version: version, Guard: c.Guard(), Audit: Audit{SpoolDir: c.AuditSpool}}
}
