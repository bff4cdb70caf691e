// Package resource is the Busbar service that owns resources: clients and
// models create, read, update, delete, list and search them by any URI, and
// those who subscribe hear of changes whichever instance made them. They are
// kept in Postgres, or in a file where no database is configured. Where it is
// told to, the service also reads local files, commits of local repositories,
// and https URIs.
package resource

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/internal/file"
	"github.com/busbar-mcp/busbar/services/resource/internal/git"
	"github.com/busbar-mcp/busbar/services/resource/internal/web"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

// Resource is the service with what it holds open.
type Resource struct {
	*service.Service
	store   store.Store
	log     *slog.Logger
	sources []source

	wake  chan struct{}
	stop  context.CancelFunc
	ended sync.WaitGroup
	close []func()
}

// source reads what is not stored.
type source struct {
	scheme string
	read   func(ctx context.Context, uri string) (mcp.ResourceContents, error)
}

// New opens what the configuration names, waiting for the database until ctx
// ends, and makes the service "resource" in the given version. Close it after
// the service was stopped.
func New(ctx context.Context, version string, cfg Config) (*Resource, error) {
	r := &Resource{
		log: cfg.Logger, wake: make(chan struct{}, 1),
		Service: service.New("resource", service.WithVersion(version), service.WithLogger(cfg.Logger),
			service.WithDescription("Resources that are created, changed, listed, searched and subscribed to")),
	}
	if err := r.open(ctx, cfg); err != nil {
		r.Close()
		return nil, err
	}
	r.addTools()
	r.addResources()
	relay, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.ended.Go(func() { r.relay(relay) })
	return r, nil
}

func (r *Resource) open(ctx context.Context, cfg Config) (err error) {
	kept, err := table.Open(ctx, database.Config{URL: cfg.DatabaseURL, File: cfg.File})
	if err != nil {
		return err
	}
	r.store, r.close = kept, append(r.close, kept.Close)
	id, err := kept.StoreID(ctx)
	if err != nil {
		return err
	}
	service.WithStore(id)(r.Service)
	if len(cfg.FileRoots) > 0 {
		files, err := file.Open(cfg.FileRoots)
		if err != nil {
			return err
		}
		r.sources = append(r.sources, source{file.Scheme, files.Read})
		r.close = append(r.close, func() { _ = files.Close() })
	}
	if len(cfg.HTTPAllow) > 0 {
		reader, err := web.New(web.Config{Allow: cfg.HTTPAllow})
		if err != nil {
			return err
		}
		r.sources = append(r.sources, source{web.Scheme, reader.Read})
		r.close = append(r.close, reader.Close)
	}
	if len(cfg.GitRoots) > 0 {
		repositories, err := git.Open(cfg.GitRoots)
		if err != nil {
			return err
		}
		r.sources = append(r.sources, source{git.Scheme, repositories.Read})
		r.close = append(r.close, func() { _ = repositories.Close() })
	}
	return nil
}

// logger is read at use: service.Main sets up slog after New.
func (r *Resource) logger() *slog.Logger {
	if r.log != nil {
		return r.log
	}
	return slog.Default()
}

// Close stops what runs beside the calls and closes what New opened.
func (r *Resource) Close() {
	if r.stop != nil {
		r.stop()
	}
	r.ended.Wait()
	for i := len(r.close) - 1; i >= 0; i-- {
		r.close[i]()
	}
}

// source is who reads a URI that is not stored; nil for one that is.
func (r *Resource) source(uri string) *source {
	for i, s := range r.sources {
		if len(uri) >= len(s.scheme) && strings.EqualFold(uri[:len(s.scheme)], s.scheme) {
			return &r.sources[i]
		}
	}
	return nil
}
