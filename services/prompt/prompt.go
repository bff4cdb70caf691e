// Package prompt is the service for prompts: templates with typed arguments, in several languages. They
// are kept with all their versions in Postgres or SQLite, and tools change them at run time.
//
// A prompt belongs to the tenant of its author. Prompts without a tenant, such as those that come with
// Busbar, are shared: only principals without a tenant can change them, and a tenant with a prompt of the
// same name gets its own. The versions record who changed what. Start at New.
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

// Env holds the settings of the service. If the database is a file, its name is prompt.db.
type Env struct {
	service.DataEnv

	//limit:store prompts of one tenant | `too_large`
	MaxPrompts int64 `name:"max-prompts" default:"1000" env:"BUSBAR_PROMPT_MAX" placeholder:"N" help:"Limit of prompts of one tenant; 0 means no limit (default ${default})."`
	//limit:store.bytes prompts of one tenant, with all versions | the oldest versions are removed, then `too_large`
	MaxBytes int64 `name:"max-bytes" default:"67108864" env:"BUSBAR_PROMPT_MAX_BYTES" placeholder:"N" help:"Limit of bytes of one tenant's prompts with all versions; 0 means no limit (default ${default})."`

	// Reread is the interval at which an instance looks for changes that it was not notified
	// of. Zero means 30 s.
	Reread time.Duration `kong:"-"`
}

// prompts is the service.
type prompts struct {
	*service.Service
	store store.Store

	mu sync.Mutex
	// revision is the store's revision of the shared prompts in served.
	revision int64
	served   map[string]served
}

// served is a prompt in its current form.
type served struct {
	version  int64
	template *template.Template
}

// New opens the store, updates its tables and the prompts that come with Busbar, and
// makes the service "prompt". It waits for the store until ctx ends.
func New(ctx context.Context, env Env) (*service.Service, error) {
	if env.Reread <= 0 {
		env.Reread = 30 * time.Second
	}
	kept, err := store.Open(ctx, database.Config{URL: env.DatabaseURL, File: env.File("prompt.db")}, store.Limits{Prompts: env.MaxPrompts, Bytes: env.MaxBytes})
	if err != nil {
		return nil, err
	}
	s := &prompts{store: kept, revision: -1, Service: service.New("prompt", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Prompt templates with typed arguments in several languages, and tools to manage them"))}
	s.OnStop(kept.Close)
	s.Check("database", kept.Away)
	s.AddMetrics(kept.Figures()...)
	s.Refresh(env.Reread, s.refresh)
	s.ListPrompts(s.page, s.find)
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
		_, size, err := entry(t)
		if err != nil {
			return err
		}
		starters = append(starters, store.Starter{Name: d.Name, Definition: definition, Entry: size})
	}
	return s.store.Seed(ctx, starters)
}

// entry returns a prompt's entry in lists, and its size in the catalogue in bytes, with
// the envelope.
func entry(t *template.Template) (listed []byte, size int, err error) {
	p := t.Prompt()
	listed, err = json.Marshal(p)
	return listed, len(listed) + len(p.Name) + 16, err
}

// refresh updates the shared prompts from the store, if they have changed.
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
		t, err := compile(v)
		if err != nil {
			// A later release may understand it.
			s.Logger().Error("a stored prompt is not valid in this release, so it is not served", "prompt", v.Name, "version", v.Number, "error", err)
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

func compile(v store.Version) (*template.Template, error) {
	d, err := template.FromJSON(v.Definition)
	if err != nil {
		return nil, err
	}
	return template.Compile(*d)
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
