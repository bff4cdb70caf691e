package main

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/github"
	"github.com/busbar-mcp/busbar/services/planning"
	"github.com/busbar-mcp/busbar/services/text"
)

// settings are what the services of a system have in common.
type settings struct {
	// databaseURL is that of Postgres; empty for SQLite in dataDir.
	databaseURL string
	dataDir     string
}

// running is one instance of a service on the bus.
type running interface {
	// Stop leaves the bus; see service.Running.
	Stop(ctx context.Context) error
}

// part is one service of a whole system.
type part struct {
	name string
	// start puts an instance on the bus. What it opened for that is closed when it
	// stops.
	start func(ctx context.Context, conn *bus.Conn, s settings) (running, error)
}

// parts are all services, in the order in which they start.
func parts() []part {
	return []part{
		{"text", plain(func() *service.Service { return text.New(version) })},
		{"github", plain(func() *service.Service { return github.New(version, github.FromEnv()) })},
		{"planning", plain(func() *service.Service { return planning.New(version) })},
		{audit.Name, startAudit},
	}
}

// plain starts a service that opens nothing.
func plain(make func() *service.Service) func(context.Context, *bus.Conn, settings) (running, error) {
	return func(ctx context.Context, conn *bus.Conn, _ settings) (running, error) { return make().Start(ctx, conn) }
}

func startAudit(ctx context.Context, conn *bus.Conn, s settings) (running, error) {
	a, err := audit.New(ctx, audit.Config{DatabaseURL: s.databaseURL, DataDir: s.dataDir, Version: version})
	if err != nil {
		return nil, err
	}
	r, err := a.Start(ctx, conn)
	if err != nil {
		a.Close()
		return nil, err
	}
	return closing{r, a.Close}, nil
}

// closing closes what a service has opened when it has stopped.
type closing struct {
	running
	close func()
}

// Stop implements running.
func (c closing) Stop(ctx context.Context) error {
	defer c.close()
	return c.running.Stop(ctx)
}
