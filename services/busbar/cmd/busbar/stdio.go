package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/home"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/workspace"
)

type stdioCommand struct {
	Token string `env:"BUSBAR_TOKEN" secret:"" hidden:"" help:"API key or access token of who the client is."`
	edge.PolicyFlags
	Toolset string `env:"BUSBAR_TOOLSET" placeholder:"NAME" help:"Show the client the toolset of this name, of the policy file, in place of all there is."`
	edge.TraceFlags
	NATS string `name:"nats" env:"BUSBAR_NATS" secret:"password" placeholder:"URL" help:"Join this bus instead of running one."`
	join.Proof
	withoutFlag
	DatabaseURL string `env:"BUSBAR_DATABASE_URL" secret:"password" placeholder:"URL" help:"Postgres, postgres://user:password@host/name. Without it, SQLite in the data directory."`
	DataDir     string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Where data is kept, shared by all that are given the same. Default $XDG_STATE_HOME/busbar/stdio or ~/.local/state/busbar/stdio."`
	AuditSpool  string `env:"BUSBAR_AUDIT_SPOOL" placeholder:"DIR" help:"Directory where records of calls wait while the bus does not take them. Default is spool in the data directory; with --nats they wait in memory unless a directory is given. Do not share one between buses."`
}

// Help implements kong's HelpProvider.
func (stdioCommand) Help() string {
	return `Example, in a desktop client's configuration:
  {"mcpServers": {"busbar": {"command": "/path/to/busbar", "args": ["stdio"]}}}`
}

// Validate implements kong's interface.
func (c *stdioCommand) Validate() error {
	if c.Toolset != "" && c.Access == "" {
		return errors.New("--toolset names a toolset of a policy file: give the file with --access FILE")
	}
	return c.withoutFlag.Validate()
}

// Run serves the client. Several of these on one data directory are one
// system: the first runs bus and services, the others join, and one of them
// takes over when it ends.
func (c *stdioCommand) Run(ctx context.Context, out io.Writer) error {
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if c.NATS != "" {
		conn, err := join.Flags{NATS: c.NATS, Proof: c.Proof}.Connect(starting, permission.Edge, "edge-stdio")
		if err != nil {
			return err
		}
		return c.serve(ctx, starting, conn, out, edge.Config{
			Guest: true, Audit: edge.Audit{SpoolDir: c.AuditSpool},
		}, func(*edge.Edge) error { return nil })
	}
	dir, err := dataDir(c.DataDir, "stdio")
	if err != nil {
		return err
	}
	host, err := newHost(dir, c.DatabaseURL, c.withoutFlag, cancel)
	if err != nil {
		return err
	}
	conn, err := dir.Connect(starting, permission.Edge, "edge-stdio", slog.Default())
	if err == nil {
		// The holder may be of another release, with other services.
		holder, _ := dir.Address()
		spool := cmp.Or(c.AuditSpool, filepath.Join(string(dir), "spool"))
		cfg := edge.Config{Audit: edge.Audit{SpoolDir: spool}, CheckResults: true}
		err = c.serve(ctx, starting, conn, out, cfg, func(e *edge.Edge) error {
			close(host.stored)
			return e.Await(starting, holder.Services...)
		})
	}
	stopped := host.stop(ctx)
	if host.failed != nil { // and nothing else could be waited for
		return stopped
	}
	return errors.Join(err, stopped)
}

// serve runs an edge whose only door is stdio, which opens when await returns. It closes
// conn.
func (c *stdioCommand) serve(ctx, starting context.Context, conn *bus.Conn, out io.Writer, cfg edge.Config, await func(*edge.Edge) error) error {
	defer conn.Close()
	cfg.Version = lifecycle.Version()
	closed, err := c.OpenPolicy(&cfg)
	if err != nil {
		return err
	}
	defer closed()
	e, stop, err := edge.Start(ctx, starting, conn, cfg, edge.IdentityFlags{}, c.TraceFlags)
	if err != nil {
		return err
	}
	defer stop()
	if err := await(e); err != nil {
		return err
	}
	err = stdio.New(stdio.Config{
		Server: e.Server(), In: os.Stdin, Out: out, Credentials: gateway.Credentials{Bearer: c.Token, Toolset: c.Toolset},
	}).Run(ctx)
	switch {
	case fault.Is(err, fault.UnknownToolset):
		return fmt.Errorf("--toolset: %w", err)
	case !fault.Is(err, fault.Unauthenticated):
		return err
	case c.Token == "":
		return errors.New("credentials are needed here: put an API key or access token into BUSBAR_TOKEN")
	}
	return fmt.Errorf("BUSBAR_TOKEN: %w", err)
}

// host runs bus and services of a data directory as soon as nobody else does.
type host struct {
	dir         home.Dir
	databaseURL string
	without     withoutFlag
	// stored is closed when the edge of this process has seen to the buckets.
	stored chan struct{}
	// quit ends with stop: a start that is under way stops where it is.
	quit context.Context
	end  context.CancelFunc
	done chan struct{}

	nats  *natsd.Server
	fleet *fleet
	// failed is why the services did not start, when done is closed.
	failed error
}

// retry is how soon after a holder's end another process takes over.
const retry = 100 * time.Millisecond

// servicesTime ends before startTime does: why a service does not start says more than
// that it is waited for.
const servicesTime = startTime - 5*time.Second

// newHost runs the bus of the directory if nobody else does, and waits for that in the
// background if not. The services start in the background: the edge, which they need, takes
// as long. giveUp is called when they do not start.
func newHost(dir home.Dir, databaseURL string, without withoutFlag, giveUp func()) (*host, error) {
	h := &host{dir: dir, databaseURL: databaseURL, without: without, stored: make(chan struct{}), done: make(chan struct{})}
	h.quit, h.end = context.WithCancel(context.Background())
	services, err := h.hold()
	switch {
	case err == nil:
		go func() {
			defer close(h.done)
			if err := h.start(services); err != nil && h.quit.Err() == nil {
				h.failed = err
				giveUp()
			}
		}()
	case errors.Is(err, natsd.ErrInUse):
		go h.wait()
	default:
		h.end()
		return nil, err
	}
	return h, nil
}

// hold takes the directory, runs the bus in it, and returns what services are to run there.
func (h *host) hold() ([]part, error) {
	services, err := h.without.system(audit.New, workspace.New)
	if err != nil {
		return nil, err
	}
	h.nats, err = h.dir.Hold("", "stdio", users(services), slog.Default())
	return services, err
}

// start starts the services.
func (h *host) start(services []part) (err error) {
	ctx, cancel := context.WithTimeout(h.quit, servicesTime)
	defer cancel()
	h.fleet, err = startFleet(ctx, h.dir, services, h.databaseURL, h.stored)
	return err
}

func (h *host) wait() {
	defer close(h.done)
	for {
		select {
		case <-h.quit.Done():
			return
		case <-time.After(retry):
		}
		services, err := h.hold()
		if err == nil {
			if err = h.start(services); err != nil {
				h.nats.Stop() // without services nobody needs it
				h.nats = nil
			}
		}
		switch {
		case err == nil:
			slog.Info("took over the data directory", "dir", string(h.dir))
			return
		case h.quit.Err() != nil:
			return
		case !errors.Is(err, natsd.ErrInUse):
			slog.Error("cannot take over the data directory; trying on", "dir", string(h.dir), "error", err)
		}
	}
}

func (h *host) stop(ctx context.Context) error {
	h.end()
	<-h.done
	if h.nats != nil { // last: whoever loses it says so
		defer h.nats.Stop()
	}
	if h.fleet == nil {
		return h.failed
	}
	return h.fleet.stop(ctx)
}
