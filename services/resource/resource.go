// Package resource is the Busbar service that owns resources: clients and models create, read,
// update, delete, list and search them by any URI, and subscribers are told of changes by any
// instance. They are kept in Postgres, or by default in a file. If configured, the service also
// reads local files, commits of local repositories, and https URIs. Each write leaves an event in
// the same transaction, and a relay publishes it. Start reading at New; package store has the
// contract of the storage.
package resource

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/internal/file"
	"github.com/busbar-mcp/busbar/services/resource/internal/git"
	"github.com/busbar-mcp/busbar/services/resource/internal/web"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

// Env configures where resources are kept (in resource.db if it is a file), and which other sources
// are read.
type Env struct {
	service.DataEnv
	// FileRoots and GitRoots are separated as in PATH.
	FileRoots string   `env:"BUSBAR_RESOURCE_FILE_ROOTS" placeholder:"DIRS" help:"Directories whose files file:// URIs may read, separated as in PATH."`
	HTTPAllow []string `env:"BUSBAR_RESOURCE_HTTP_ALLOW" placeholder:"HOST" help:"Hosts that https:// URIs may read: example.com, example.com:8443, *.example.com."`
	GitRoots  string   `env:"BUSBAR_RESOURCE_GIT_ROOTS" placeholder:"DIRS" help:"Repositories, or directories of repositories, that git:// URIs may read, separated as in PATH."`
	// MaxResources and MaxBytes bound what one tenant keeps; 0 is no bound.
	//limit:store resources of one tenant | the tool fails
	MaxResources int64 `name:"max-resources" default:"100000" env:"BUSBAR_RESOURCE_MAX" placeholder:"N" help:"Limit of resources of one tenant; 0 means no limit (default ${default})."`
	//limit:store.bytes their bytes, with names and descriptions | the tool fails
	MaxBytes int64 `name:"max-bytes" default:"1073741824" env:"BUSBAR_RESOURCE_MAX_BYTES" placeholder:"N" help:"Limit of bytes of one tenant's resources; 0 means no limit (default ${default})."`
	//limit:store writes with an idempotency key of one tenant, in a day | the tool fails
	MaxKeyed int64 `name:"max-keyed-writes" default:"500000" env:"BUSBAR_RESOURCE_MAX_KEYED_WRITES" placeholder:"N" help:"Limit of writes with an idempotency key that are remembered for one tenant (default ${default}). Each is remembered for a day. 0 means no limit."`
}

// resources is the service.
type resources struct {
	*service.Service
	store   store.Store
	sources []source
	wake    chan struct{}
	reading *reading
}

// source reads resources that are not stored.
type source struct {
	scheme string
	read   func(ctx context.Context, uri string) (mcp.ResourceContents, error)
}

// New opens the database and the sources that env names, and makes the service "resource". It waits
// for the database until ctx ends.
func New(ctx context.Context, env Env) (*service.Service, error) {
	r := &resources{
		wake: make(chan struct{}, 1), reading: newReading(),
		Service: service.New("resource", service.WithVersion(env.Version), service.WithLogger(env.Log),
			service.WithDescription("Resources that are created, changed, listed, searched and subscribed to")),
	}
	if err := r.open(ctx, env); err != nil {
		r.Close()
		return nil, err
	}
	r.addTools()
	r.addResources()
	r.Go(r.relay)
	return r.Service, nil
}

func (r *resources) open(ctx context.Context, env Env) error {
	kept, err := table.Open(ctx, database.Config{URL: env.DatabaseURL, File: env.File("resource.db")}, table.Limits{Resources: env.MaxResources, Bytes: env.MaxBytes, Keys: keyLimits(env.MaxKeyed)})
	if err != nil {
		return err
	}
	r.OnStop(kept.Close)
	r.Check("database", kept.Away)
	r.AddMetrics(kept.Figures()...)
	r.store = kept
	id, err := kept.StoreID(ctx)
	if err != nil {
		return err
	}
	r.SetStore(id)
	if roots := some(filepath.SplitList(env.FileRoots)); len(roots) > 0 {
		files, err := file.Open(roots)
		if err != nil {
			return err
		}
		r.OnStop(func() { _ = files.Close() })
		r.sources = append(r.sources, source{file.Scheme, files.Read})
	}
	if hosts := some(env.HTTPAllow); len(hosts) > 0 {
		reader, err := web.New(web.Config{Allow: hosts})
		if err != nil {
			return err
		}
		r.OnStop(reader.Close)
		r.sources = append(r.sources, source{web.Scheme, reader.Read})
	}
	if roots := some(filepath.SplitList(env.GitRoots)); len(roots) > 0 {
		repositories, err := git.Open(roots)
		if err != nil {
			return err
		}
		r.OnStop(func() { _ = repositories.Close() })
		r.sources = append(r.sources, source{git.Scheme, repositories.Read})
	}
	return nil
}

// keyLimits are the default limits with another number of keys.
func keyLimits(keys int64) database.KeyLimits {
	limits := database.DefaultKeyLimits
	limits.Keys = keys
	return limits
}

// some leaves out blank texts.
func some(all []string) (out []string) {
	for _, s := range all {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// source returns the source that reads a URI; nil for a stored one.
func (r *resources) source(uri string) *source {
	for i, s := range r.sources {
		if len(uri) >= len(s.scheme) && strings.EqualFold(uri[:len(s.scheme)], s.scheme) {
			return &r.sources[i]
		}
	}
	return nil
}
