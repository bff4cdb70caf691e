package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/home"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/workspace"
)

type devCommand struct {
	edge.ListenFlags
	edge.PolicyFlags
	edge.IdentityFlags
	edge.TraceFlags
	oauthFlags
	withoutFlag
	NATSListen  string `name:"nats-listen" default:"127.0.0.1:4222" env:"BUSBAR_NATS_LISTEN" placeholder:"HOST:PORT" help:"Where services join the bus (default ${default}). A port that is taken is replaced by a free one."`
	DatabaseURL string `env:"BUSBAR_DATABASE_URL" secret:"password" placeholder:"URL" help:"Postgres, postgres://user:password@host/name. Without it, SQLite in the data directory."`
	DataDir     string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Where data is kept. Default $XDG_STATE_HOME/busbar/dev or ~/.local/state/busbar/dev."`

	WorkspaceRoots []string `name:"workspace-root" env:"BUSBAR_WORKSPACE_ROOTS" placeholder:"NAME=DIR" help:"Directories that the tools of the workspace may read and change: main=/srv/code,docs=/srv/docs."`

	AuditRetention time.Duration `default:"2160h" env:"BUSBAR_AUDIT_RETENTION" placeholder:"TIME" help:"How long events of the audit trail are kept; negative is forever (default ${default}, 90 days)."`
}

// Help implements kong's HelpProvider.
func (devCommand) Help() string {
	return `Example: busbar dev --listen 127.0.0.1:8000 --nats-listen 127.0.0.1:4222 --data-dir /tmp/busbar`
}

// startTime bounds the start of the whole system.
const startTime = 30 * time.Second

func (c *devCommand) Run(ctx context.Context, out io.Writer) error {
	dir, err := dataDir(c.DataDir, "dev")
	if err != nil {
		return err
	}
	if err := loopbackOnly(c.NATSListen); err != nil {
		return err
	}
	if err := c.private(c.ListenFlags); err != nil {
		return err
	}
	l, err := c.Open(edge.Authenticates(c.PolicyFlags, c.IdentityFlags))
	if err != nil {
		return err
	}
	defer l.Close()
	log := slog.Default()
	services, err := c.system(func(ctx context.Context, env audit.Env) (*service.Service, error) {
		env.Retention = c.AuditRetention
		return audit.New(ctx, env)
	}, func(ctx context.Context, env workspace.Env) (*service.Service, error) {
		env.Roots = c.WorkspaceRoots
		return workspace.New(ctx, env)
	})
	if err != nil {
		return err
	}
	nats, err := dir.Hold(c.NATSListen, "dev", users(services), log)
	if err != nil {
		return dir.InUse(err)
	}
	defer nats.Stop()

	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	edgeConn, err := dir.Connect(starting, permission.Edge, "edge", log)
	if err != nil {
		return err
	}
	defer edgeConn.Close()
	token, remove, err := edge.IssueToken(string(dir), "dev", l)
	if err != nil {
		return err
	}
	defer remove()
	cfg := edge.Config{
		Version: lifecycle.Version(), Guard: c.Guard(), Audit: edge.Audit{SpoolDir: filepath.Join(string(dir), "spool"), Token: token},
		CheckResults: true,
	}
	if c.Access, err = c.policy(c.Access, string(dir)); err != nil {
		return err
	}
	closed, err := c.OpenPolicy(&cfg)
	if err != nil {
		return err
	}
	defer closed()
	logins, err := c.open(string(dir), l, &c.IdentityFlags, &cfg)
	if err != nil {
		return err
	}
	e, stop, err := edge.Start(ctx, starting, edgeConn, cfg, c.IdentityFlags, c.TraceFlags)
	if err != nil {
		return err
	}
	defer stop()
	stored := make(chan struct{})
	close(stored) // edge.New did
	fleet, err := startFleet(starting, dir, services, c.DatabaseURL, stored)
	if err != nil {
		return err
	}
	if err := e.Await(starting, names(services)...); err != nil {
		return errors.Join(err, fleet.stop(ctx))
	}
	ready := fmt.Sprintf("busbar dev is ready: %s nats=%s data=%s", l, nats.URL(), dir)
	if logins != nil {
		ready += " oauth=" + logins.Issuer()
	}
	lifecycle.Print(out, slog.LevelInfo, ready)
	// The edge first: its calls in flight need the services.
	err = serveBoth(ctx, e, l, logins)
	return errors.Join(err, fleet.stop(ctx))
}

func dataDir(flag, command string) (home.Dir, error) {
	if flag != "" {
		return home.Dir(flag), nil
	}
	d, err := lifecycle.DataDir(command)
	return home.Dir(d), err
}

// loopbackOnly keeps a bus without TLS off the network.
func loopbackOnly(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--nats-listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--nats-listen %s is a public address and the development bus has no TLS: use 127.0.0.1, or run a NATS server and \"busbar edge --nats\"", listen)
}

// fleet is every service but the edge, each on a connection of its own, as
// they are in processes of their own.
type fleet struct {
	members []member
	traces  *otlp.Traces
}

type member struct {
	service *service.Service
	conn    *bus.Conn
	running *service.Running
}

// startFleet starts all services at once: most of what each does is to wait, for NATS or
// a database. They open and compile without buckets, but cannot announce themselves
// without them; stored is closed when an edge has seen to them.
func startFleet(ctx context.Context, dir home.Dir, all []part, databaseURL string, stored <-chan struct{}) (*fleet, error) {
	traces, err := otlp.Open(ctx, lifecycle.Version())
	if err != nil {
		return nil, err
	}
	f := &fleet{traces: traces, members: make([]member, len(all))}
	env := service.DataEnv{Env: service.Env{Version: lifecycle.Version(), Log: slog.Default()}, DatabaseURL: databaseURL, DataDir: string(dir)}
	starting := pool.New().WithErrors().WithContext(ctx).WithCancelOnError().WithFirstError()
	for i, p := range all {
		m := &f.members[i]
		starting.Go(func(ctx context.Context) (err error) {
			if m.service, err = p.Build(ctx, env); err != nil {
				return fmt.Errorf("start %s: %w", p.name, err)
			}
			if m.conn, err = dir.Connect(ctx, p.name, p.name, slog.Default()); err != nil {
				return err
			}
			m.conn.Trace(traces.Service(p.name))
			select {
			case <-stored:
			case <-ctx.Done():
				return ctx.Err()
			}
			if m.running, err = m.service.Start(ctx, m.conn); err != nil {
				return fmt.Errorf("start %s: %w", p.name, err)
			}
			return nil
		})
	}
	if err := starting.Wait(); err != nil {
		return nil, errors.Join(err, f.stop(ctx))
	}
	return f, nil
}

// stop drains every service.
func (f *fleet) stop(ctx context.Context) error {
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.DrainTimeout)
	defer cancel()
	var errs []error
	for _, m := range f.members {
		switch {
		case m.running != nil:
			errs = append(errs, m.running.Stop(drain))
		case m.service != nil: // it did not start
			m.service.Close()
		}
		if m.conn != nil {
			m.conn.Close()
		}
	}
	f.traces.Close()
	return errors.Join(errs...)
}
