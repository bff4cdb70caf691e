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
	"maps"
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

// Env says where the prompts are kept, in prompt.db if it is a file.
type Env struct {
	service.DataEnv
	// Reread is how often an instance looks for changes that it was not told. Zero
	// is 30 s.
	Reread time.Duration `kong:"-"`
}

// prompts is the service.
type prompts struct {
	*service.Service
	store store.Store

	mu sync.Mutex
	// revision is that of the store which served are of.
	revision int64
	served   map[string]served
}

// served is a prompt as it is served now.
type served struct {
	version  int64
	template *template.Template
}

// New opens the store, waiting for it until ctx ends, brings its tables and the
// prompts that Busbar comes with up to date, and makes the service "prompt".
func New(ctx context.Context, env Env) (*service.Service, error) {
	if env.Reread <= 0 {
		env.Reread = 30 * time.Second
	}
	kept, err := store.Open(ctx, database.Config{URL: env.DatabaseURL, File: env.File("prompt.db")})
	if err != nil {
		return nil, err
	}
	s := &prompts{store: kept, revision: -1, Service: service.New("prompt", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Prompt templates with typed arguments in several languages, and tools to manage them"))}
	s.OnStop(kept.Close)
	s.Refresh(env.Reread, s.refresh)
	id, err := kept.StoreID(ctx)
	s.SetStore(id)
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
		s.Close()
		return nil, err
	}
	return s.Service, nil
}

func (s *prompts) seed(ctx context.Context) error {
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
func (s *prompts) refresh(ctx context.Context) error {
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
	now := map[string]served{}
	for _, v := range all {
		if old, ok := s.served[v.Name]; ok && old.version == v.Number {
			now[v.Name] = old
			continue
		}
		d, err := template.FromJSON(v.Definition)
		var t *template.Template
		if err == nil {
			t, err = template.Compile(*d)
		}
		if err != nil {
			// A later release may know more.
			s.Logger().Error("a prompt in the store is not understood and left out", "prompt", v.Name, "version", v.Number, "error", err)
			continue
		}
		now[v.Name] = served{v.Number, t}
	}
	s.revision, s.served = revision, now
	var serve []service.ServedPrompt
	for _, name := range slices.Sorted(maps.Keys(now)) {
		serve = append(serve, serves(now[name].template))
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
