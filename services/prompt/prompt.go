// Package prompt is the Busbar service of prompts: templates with typed
// arguments, in several languages, kept with all their versions in Postgres or
// SQLite and changed while it runs, by tools.
//
// All tenants share the prompts: there is one catalogue, and whoever may call
// the tools changes it for everybody. Who changed what is in the versions.
package prompt

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt/internal/starter"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

// Config says where the prompts are kept.
type Config struct {
	// DatabaseURL is a Postgres database, postgres://user:password@host/name,
	// which any number of instances share. Empty: SQLite in DataDir.
	DatabaseURL string
	// DataDir is where SQLite's file is, prompt.db. Only one process may use it.
	DataDir string
	// Reread is how often an instance looks for changes that it was not told.
	// Default 30 s.
	Reread time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// FromEnv reads BUSBAR_DATABASE_URL; DataDir is database.Dir.
func FromEnv() Config {
	dir, _ := database.Dir("prompt") // without one, New says what is missing
	return Config{DatabaseURL: os.Getenv("BUSBAR_DATABASE_URL"), DataDir: dir}
}

func (c Config) open(ctx context.Context) (store.Store, error) {
	place := database.Config{URL: c.DatabaseURL}
	if c.DataDir != "" {
		place.File = filepath.Join(c.DataDir, "prompt.db")
	}
	return store.Open(ctx, place)
}

// Service is the service "prompt". Close it after it has stopped.
type Service struct {
	*service.Service
	store store.Store
	log   *slog.Logger

	mu sync.Mutex
	// revision is that of the store which prompts are of.
	revision int64
	prompts  map[string]served
}

// served is a prompt as it is served now.
type served struct {
	version  int64
	template *template.Template
}

// New opens the store, until ctx ends, brings its tables and the prompts that
// Busbar comes with up to date, and makes the service.
func New(ctx context.Context, version string, cfg Config) (*Service, error) {
	if cfg.Reread <= 0 {
		cfg.Reread = 30 * time.Second
	}
	kept, err := cfg.open(ctx)
	if err != nil {
		return nil, err
	}
	s := &Service{store: kept, log: cfg.Logger, revision: -1}
	s.Service = service.New("prompt", service.WithVersion(version), service.WithLogger(cfg.Logger),
		service.WithDescription("Prompt templates with typed arguments in several languages, and tools to manage them"),
		service.WithRefresh(cfg.Reread, func(ctx context.Context, _ *service.Service) error { return s.refresh(ctx) }))
	id, err := kept.StoreID(ctx)
	service.WithStore(id)(s.Service)
	if err == nil {
		err = s.seed(ctx)
	}
	if err == nil {
		err = s.refresh(ctx)
	}
	if err == nil {
		err = s.addTools()
	}
	if err != nil {
		kept.Close()
		return nil, err
	}
	return s, nil
}

// logger is read at use: service.Main sets up slog after the service is made.
func (s *Service) logger() *slog.Logger {
	if s.log != nil {
		return s.log
	}
	return slog.Default()
}

// Close closes the store.
func (s *Service) Close() { s.store.Close() }

func (s *Service) seed(ctx context.Context) error {
	all, err := starter.Prompts()
	if err != nil {
		return err
	}
	var starters []store.Starter
	for _, d := range all {
		t, err := template.Compile(*d)
		if err != nil {
			return fmt.Errorf("prompt %s: %w", d.Name, err)
		}
		definition, err := d.JSON()
		if err != nil {
			return err
		}
		starters = append(starters, store.Starter{Name: d.Name, Definition: definition, Entry: entry(t)})
	}
	return s.store.Seed(ctx, starters)
}

// entry is how many bytes a prompt takes in the catalogue: its own and its
// envelope.
func entry(t *template.Template) int {
	p := t.Prompt()
	raw, err := json.Marshal(p)
	if err != nil {
		return store.MaxCatalogue + 1
	}
	return len(raw) + len(p.Name) + 16
}

// refresh serves what is in the store, if that has changed.
func (s *Service) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, err := s.store.Revision(ctx)
	if err != nil || revision == s.revision {
		return err
	}
	all, revision, err := s.store.All(ctx)
	if err != nil {
		return err
	}
	prompts := map[string]served{}
	for _, v := range all {
		if old, ok := s.prompts[v.Name]; ok && old.version == v.Number {
			prompts[v.Name] = old
			continue
		}
		d, err := template.FromJSON(v.Definition)
		var t *template.Template
		if err == nil {
			t, err = template.Compile(*d)
		}
		if err != nil {
			// A later release may know more.
			s.logger().Error("a prompt in the store is not understood and left out", "prompt", v.Name, "version", v.Number, "error", err)
			continue
		}
		prompts[v.Name] = served{v.Number, t}
	}
	s.revision, s.prompts = revision, prompts
	var serve []service.ServedPrompt
	for _, name := range slices.Sorted(maps.Keys(prompts)) {
		serve = append(serve, serves(prompts[name].template))
	}
	s.SetPrompts(serve)
	return nil
}

func serves(t *template.Template) service.ServedPrompt {
	p := service.ServedPrompt{Prompt: t.Prompt(), Complete: map[string]service.CompleteFunc{}}
	p.Render = func(_ context.Context, _ *service.Call, arguments map[string]string) ([]mcp.PromptMessage, error) {
		return t.Render(arguments)
	}
	for _, a := range p.Prompt.Arguments {
		p.Complete[a.Name] = func(_ context.Context, _ *service.Call, typed string, _ map[string]string) ([]string, error) {
			values := t.Complete(a.Name, typed)
			if values == nil {
				values = []string{}
			}
			return values, nil
		}
	}
	return p
}
