package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/batch"
	"github.com/busbar-mcp/busbar/services/github"
	"github.com/busbar-mcp/busbar/services/model"
	"github.com/busbar-mcp/busbar/services/planning"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/text"
)

// settings are what the services of a system have in common.
type settings struct {
	// databaseURL is that of Postgres; empty for SQLite in dataDir.
	databaseURL string
	dataDir     string
	// auditRetention is audit.Config.Retention.
	auditRetention time.Duration
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

// parts are all services of a whole system: those that need no setting, and the
// model service where one is set.
func parts() []part {
	all := []part{
		{"text", plain(func() *service.Service { return text.New(version) })},
		{"github", plain(func() *service.Service { return github.New(version, github.FromEnv()) })},
		{"planning", plain(func() *service.Service { return planning.New(version) })},
		{"prompt", startPrompt},
		{"resource", startResource},
		{"batch", plain(func() *service.Service { return batch.New(version) })},
		{audit.Name, startAudit},
	}
	if model.FromEnv().Enabled() {
		all = append(all, part{"model", startModel})
	}
	return all
}

func serviceNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

func startPrompt(ctx context.Context, conn *bus.Conn, s settings) (running, error) {
	p, err := prompt.New(ctx, version, prompt.Config{DatabaseURL: s.databaseURL, DataDir: s.dataDir})
	if err != nil {
		return nil, err
	}
	started, err := p.Start(ctx, conn)
	if err != nil {
		p.Close()
		return nil, err
	}
	return closing{started, p.Close}, nil
}

func startResource(ctx context.Context, conn *bus.Conn, s settings) (running, error) {
	cfg := resource.FromEnv()
	cfg.DatabaseURL, cfg.File = s.databaseURL, filepath.Join(s.dataDir, "resource.db")
	r, err := resource.New(ctx, version, cfg)
	if err != nil {
		return nil, err
	}
	started, err := r.Start(ctx, conn)
	if err != nil {
		r.Close()
		return nil, err
	}
	return closing{started, r.Close}, nil
}

func startAudit(ctx context.Context, conn *bus.Conn, s settings) (running, error) {
	a, err := audit.New(ctx, audit.Config{DatabaseURL: s.databaseURL, DataDir: s.dataDir, Retention: s.auditRetention, Version: version})
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

func startModel(ctx context.Context, conn *bus.Conn, _ settings) (running, error) {
	m, err := model.New(version, model.FromEnv())
	if err != nil {
		return nil, err
	}
	return m.Start(ctx, conn)
}

// plain starts a service that opens nothing.
func plain(make func() *service.Service) func(context.Context, *bus.Conn, settings) (running, error) {
	return func(ctx context.Context, conn *bus.Conn, _ settings) (running, error) { return make().Start(ctx, conn) }
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
