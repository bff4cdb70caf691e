package edge

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/operator"
)

// Command is the command line of an edge that runs as its own process. The
// tags are read by kong.
type Command struct {
	ListenFlags
	PolicyFlags
	IdentityFlags
	join.Flags
	StorageFlags
	TraceFlags
	DataDir    string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Directory for the token that lets users of this machine read the audit trail. Default $XDG_STATE_HOME/busbar/edge or ~/.local/state/busbar/edge."`
	AuditSpool string `env:"BUSBAR_AUDIT_SPOOL" placeholder:"DIR" help:"Directory where records of calls wait while the bus does not take them. Without it they wait in memory, and are lost when that is full."`
	//limit:process a stopping edge still takes requests, if `/readyz` was asked for
	LeaveTime            time.Duration `default:"3s" env:"BUSBAR_LEAVE_TIME" placeholder:"TIME" help:"How long a stopping edge still takes requests while /readyz says that it stops (default ${default}). The edge skips this if nobody asked for /readyz in the last 30 s. 0 means not at all."`
	AllowUnauthenticated bool          `env:"BUSBAR_ALLOW_UNAUTHENTICATED" help:"Listen on a public address although this edge authenticates nobody. A proxy must authenticate callers."`
}

// StorageFlags say how the bus stores its data. The tags are read by kong.
type StorageFlags struct {
	Replicas storage.Replicas `name:"nats-replicas" default:"auto" env:"BUSBAR_NATS_REPLICAS" placeholder:"N" help:"Number of NATS servers that keep each bucket and stream: 1, 3, 5 or auto (default ${default}). With auto it is 3 if the cluster has as many servers."`
}

// Help implements kong's HelpProvider.
func (Command) Help() string {
	return `Example: busbar edge --listen 127.0.0.1:8001 --nats nats://127.0.0.1:4222 --access access.yaml`
}

// connectTime is how long a starting edge waits for NATS.
const connectTime = 30 * time.Second

// Run serves until ctx ends. It prints the line that says the edge is ready to out.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	l, err := c.Open(c.AllowUnauthenticated || Authenticates(c.PolicyFlags, c.IdentityFlags))
	if err != nil {
		return err
	}
	defer l.Close()
	l.LeaveTime = c.LeaveTime
	cfg := c.Config(lifecycle.Version())
	closed, err := c.OpenPolicy(&cfg)
	if err != nil {
		return err
	}
	defer closed()
	token, remove, err := IssueToken(c.DataDir, "edge", l)
	if err != nil {
		slog.Warn("nobody can read the audit trail at this edge", "error", err)
	} else {
		defer remove()
		cfg.Audit.Token = token
	}
	connecting, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := c.Connect(connecting, permission.Edge, "edge")
	if err != nil {
		return err
	}
	defer conn.Close()
	e, stop, err := Start(ctx, connecting, conn, cfg, c.IdentityFlags, c.TraceFlags)
	if err != nil {
		return err
	}
	defer stop()
	for _, warning := range e.Warnings() {
		slog.Warn(warning)
	}
	lifecycle.Print(out, slog.LevelInfo, fmt.Sprintf("busbar edge is ready: %s nats=%s", l, conn.URL()))
	return e.ServeAll(ctx, l)
}

// Start makes an edge with the authentication and traces of its flags. starting bounds the start,
// ctx the traces. closed closes the edge and both; it is nil if there is an error.
func Start(ctx, starting context.Context, conn *bus.Conn, cfg Config, who IdentityFlags, spans TraceFlags) (_ *Edge, closed func(), err error) {
	forget, err := who.OpenIdentity(&cfg)
	if err != nil {
		return nil, nil, err
	}
	traces, err := spans.OpenTraces(ctx, &cfg)
	if err != nil {
		forget()
		return nil, nil, err
	}
	e, err := New(starting, conn, cfg)
	if err != nil {
		traces.Close()
		forget()
		return nil, nil, err
	}
	return e, func() { e.Close(); traces.Close(); forget() }, nil
}

// IssueToken makes the token with which people on this machine read the audit trail. It
// is in a data directory, or in the default one of a name.
func IssueToken(dir, name string, l *Listeners) (token.Token, func(), error) {
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
	return Config{Version: version, Guard: c.Guard(), Replicas: c.Replicas, Audit: Audit{SpoolDir: c.AuditSpool}}
}
