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
	AuditSpool  string `env:"BUSBAR_AUDIT_SPOOL" placeholder:"DIR" help:"Where the records of calls wait while the bus does not take them. Default is spool in the data directory; with --nats they wait in memory unless a directory is given. Do not share one between buses."`
}

// Help implements kong's HelpProvider.
func (stdioCommand) Help() string {
	return `Example, in a desktop client's configuration:
  {"mcpServers": {"busbar": {"command": "/path/to/busbar", "args": ["stdio"]}}}`
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
		})
	}
	dir, err := dataDir(c.DataDir, "stdio")
	if err != nil {
		return err
	}
	host, err := newHost(starting, dir, c.DatabaseURL, c.withoutFlag)
	if err != nil {
		return err
	}
	conn, err := dir.Connect(starting, permission.Edge, "edge-stdio", slog.Default())
	if err == nil {
		// The holder may be of another release, with other services.
		holder, _ := dir.Address()
		spool := cmp.Or(c.AuditSpool, filepath.Join(string(dir), "spool"))
		err = c.serve(ctx, starting, conn, out, edge.Config{Audit: edge.Audit{SpoolDir: spool}, CheckResults: true}, holder.Services...)
	}
	return errors.Join(err, host.stop(ctx))
}

// serve runs an edge whose only door is stdio. It closes conn.
func (c *stdioCommand) serve(ctx, starting context.Context, conn *bus.Conn, out io.Writer, cfg edge.Config, await ...string) error {
	defer conn.Close()
	cfg.Version = lifecycle.Version()
	closed, err := c.OpenPolicy(&cfg)
	if err != nil {
		return err
	}
	defer closed()
	forgotten, err := new(edge.IdentityFlags).OpenIdentity(&cfg)
	if err != nil {
		return err
	}
	defer forgotten()
	traces, err := c.OpenTraces(ctx, &cfg)
	if err != nil {
		return err
	}
	defer traces.Close()
	e, err := edge.New(starting, conn, cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Await(starting, await...); err != nil {
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
	// quit ends with stop: a take over that is under way stops where it is.
	quit context.Context
	end  context.CancelFunc
	done chan struct{}

	nats  *natsd.Server
	fleet *fleet
}

// retry is how soon after a holder's end another process takes over.
const retry = 100 * time.Millisecond

// newHost takes the directory if it is free, and waits for it in the
// background if not.
func newHost(ctx context.Context, dir home.Dir, databaseURL string, without withoutFlag) (*host, error) {
	h := &host{dir: dir, databaseURL: databaseURL, without: without, done: make(chan struct{})}
	h.quit, h.end = context.WithCancel(context.Background())
	err := h.take(ctx)
	if err == nil {
		close(h.done)
		return h, nil
	}
	if !errors.Is(err, natsd.ErrInUse) {
		h.end()
		return nil, err
	}
	go h.wait()
	return h, nil
}

func (h *host) take(ctx context.Context) error {
	services, err := h.without.system(audit.New, workspace.New)
	if err != nil {
		return err
	}
	nats, err := h.dir.Hold("", "stdio", users(services), slog.Default())
	if err != nil {
		return err
	}
	if h.fleet, err = startFleet(ctx, h.dir, services, h.databaseURL); err != nil {
		nats.Stop()
		return err
	}
	h.nats = nats
	return nil
}

func (h *host) wait() {
	defer close(h.done)
	for {
		select {
		case <-h.quit.Done():
			return
		case <-time.After(retry):
		}
		ctx, cancel := context.WithTimeout(h.quit, startTime)
		err := h.take(ctx)
		cancel()
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
	if h.nats == nil {
		return nil
	}
	defer h.nats.Stop()
	return h.fleet.stop(ctx)
}
