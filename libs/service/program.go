package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
)

// Build makes a service. It opens what the service needs, waits for it until ctx ends, and
// registers the cleanup with Service.OnStop. E is Env, or DataEnv for a service that stores
// something, or a struct that embeds one of them and adds the service's own settings as fields with
// kong tags. These become flags and environment variables.
type Build[E Environment] func(ctx context.Context, env E) (*Service, error)

// Environment is Env, or a struct that embeds it.
type Environment interface{ environment() }

// Env is the environment that a process gives every service.
type Env struct {
	// Version is the program's SemVer version.
	Version string `kong:"-"`
	// Log is where the service logs; nil is slog.Default().
	Log *slog.Logger `kong:"-"`
}

func (Env) environment() {}

func (e *Env) inherit(_ string, from DataEnv) { *e = from.Env }

// DataEnv is the Env of a service that stores something.
type DataEnv struct {
	Env
	// DatabaseURL is the URL of a Postgres database, which any number of processes share. Empty:
	// SQLite in DataDir, which is one process's alone.
	DatabaseURL string `env:"BUSBAR_DATABASE_URL" secret:"password" placeholder:"URL" help:"Postgres, postgres://user:password@host:5432/name (default: SQLite in the data directory)."`
	DataDir     string `env:"BUSBAR_DATA_DIR" placeholder:"DIR" help:"Data directory. Default $XDG_STATE_HOME/busbar/ or ~/.local/state/busbar/, and the name of the service."`
}

// File is the path of a file in DataDir; empty if DataDir is empty.
func (e DataEnv) File(name string) string {
	if e.DataDir == "" {
		return ""
	}
	return filepath.Join(e.DataDir, name)
}

func (e *DataEnv) inherit(name string, from DataEnv) {
	e.Env = from.Env
	if from.DataDir != "" {
		e.DatabaseURL, e.DataDir = from.DatabaseURL, from.DataDir
	}
	if e.DataDir == "" {
		e.DataDir, _ = lifecycle.DataDir(name) // without a home directory, the code that needs a file reports it
	}
}

// Main is the main function of a service's own program: it reads flags and
// environment, joins the bus, builds the service, serves until SIGINT or
// SIGTERM, drains, and exits. A second signal exits at once.
func Main[E Environment](name string, build Build[E]) {
	var program struct {
		lifecycle.Flags
		Command[E]
	}
	program.Command = *NewCommand(name, build)
	lifecycle.Main(name, "The service "+name+" of a Busbar bus.", &program)
}

// Join puts services on a bus and serves them until ctx ends or one of them fails; then all drain.
// Each has its own connection, as the bus user with its name. Use it for a program with several
// services, or for a name that is known only at run time; Main also has a command line, probes and
// traces. at is the address of the bus; at.NATS is required.
func Join(ctx context.Context, at join.Flags, services ...*Service) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() {
			err := s.join(ctx, at)
			if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
				errs[i] = fmt.Errorf("service %s: %w", s.name, err)
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *Service) join(ctx context.Context, at join.Flags) error {
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	conn, err := at.Connect(starting, s.name, s.name)
	if err != nil {
		s.Close()
		return err
	}
	defer conn.Close()
	r, err := s.Start(starting, conn)
	if err != nil {
		return err
	}
	return r.Serve(ctx)
}

// Command is the command line of a service, for kong: a program of its own, or
// one command of a program that runs several.
type Command[E Environment] struct {
	join.Flags
	Probe probe.Flags `embed:""`
	Env   E           `embed:""`

	name  string
	build Build[E]
}

// NewCommand makes the command of a service. name is the name of the service.
func NewCommand[E Environment](name string, build Build[E]) *Command[E] {
	return &Command[E]{name: name, build: build}
}

// startTime limits the start of an instance: a database or a bus that is missing for that long is
// an error.
//
//limit:process a service waits at its start for the bus and its database | it exits
const startTime = 30 * time.Second

// Run joins the bus and serves until ctx ends. It writes to out when the instance is ready. kong
// calls it.
func (c *Command[E]) Run(ctx context.Context, out io.Writer) error {
	l, err := c.Probe.Open()
	if err != nil {
		return err
	}
	shown := newWatch(l)
	defer shown.close()
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	conn, err := c.Connect(starting, c.name, c.name)
	if err != nil {
		return err
	}
	defer conn.Close()
	traces, err := otlp.Open(ctx, lifecycle.Version())
	if err != nil {
		return err
	}
	defer traces.Close()
	conn.Trace(traces.Service(c.name))
	r, err := c.start(starting, conn, DataEnv{Env: Env{Version: lifecycle.Version(), Log: slog.Default()}}, shown)
	if err != nil {
		return err
	}
	ready := fmt.Sprintf("busbar %s is ready: nats=%s", c.name, conn.URL())
	if l != nil {
		ready += " metrics=" + l.URL()
	}
	lifecycle.Print(out, slog.LevelInfo, ready)
	return r.Serve(ctx)
}

// Start puts an instance on a bus that the process has already joined. env sets the version, the
// log and, unless env.DataDir is empty, the data directory; the service's own settings are read
// from the environment. The instance has no probes: the process that calls Start serves its own.
func (c *Command[E]) Start(ctx context.Context, conn *bus.Conn, env DataEnv) (*Running, error) {
	s, err := c.Build(ctx, env)
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, conn)
}

// Build is the part of Start that needs no bus: it makes the service and opens what the service
// needs.
func (c *Command[E]) Build(ctx context.Context, env DataEnv) (*Service, error) {
	parser, err := kong.New(c, kong.Name(c.name), lifecycle.Secrets())
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(nil); err != nil {
		return nil, fmt.Errorf("settings of service %s: %w", c.name, err)
	}
	return c.make(ctx, env)
}

func (c *Command[E]) make(ctx context.Context, env DataEnv) (*Service, error) {
	any(&c.Env).(interface{ inherit(string, DataEnv) }).inherit(c.name, env)
	return c.build(ctx, c.Env)
}

func (c *Command[E]) start(ctx context.Context, conn *bus.Conn, env DataEnv, shown *watch) (*Running, error) {
	s, err := c.make(ctx, env)
	if err != nil {
		return nil, err
	}
	if shown != nil {
		s.figures = newFigures(s, shown.probe)
		for _, one := range s.shown {
			if err := shown.probe.Register(one); err != nil {
				s.Close()
				return nil, fmt.Errorf("figures of service %s: %w", c.name, err)
			}
		}
	}
	r, err := s.Start(ctx, conn)
	if err == nil {
		shown.show(r)
	}
	return r, err
}
