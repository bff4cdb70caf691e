// Package prompt is the Busbar service of prompts: templates with typed
// arguments, in several languages, kept with all their versions in Postgres or
// SQLite and changed while it runs, by tools.
//
// Prompts belong to the tenant of who made them. Those of nobody's, such as the ones
// that Busbar brings, are everybody's: only principals without a tenant change them,
// and a tenant that has one of the same name gets its own. Who changed what is in the
// versions.
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

	MaxPrompts int64 `name:"max-prompts" default:"1000" env:"BUSBAR_PROMPT_MAX" placeholder:"N" help:"Most prompts that are kept for one tenant; 0 is no bound (default ${default})."`
	MaxBytes   int64 `name:"max-bytes" default:"67108864" env:"BUSBAR_PROMPT_MAX_BYTES" placeholder:"N" help:"Most bytes of prompts with their versions that are kept for one tenant; 0 is no bound (default ${default})."`

	// Reread is how often an instance looks for changes that it was not told. Zero
	// is 30 s.
	Reread time.Duration `kong:"-"`
}

// prompts is the service.
type prompts struct {
	*service.Service
	store store.Store

	mu sync.Mutex
	// revision is that of the store which served are of: everybody's prompts.
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
	kept, err := store.Open(ctx, database.Config{URL: env.DatabaseURL, File: env.File("prompt.db")}, store.Limits{Prompts: env.MaxPrompts, Bytes: env.MaxBytes})
	if err != nil {
		return nil, err
	}
	s := &prompts{store: kept, revision: -1, Service: service.New("prompt", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Prompt templates with typed arguments in several languages, and tools to manage them"))}
	s.OnStop(kept.Close)
	s.Check("database", kept.Away)
	s.Show(kept.Figures()...)
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

// entry is a prompt in lists, and how many bytes it takes in the catalogue: its own
// and its envelope.
func entry(t *template.Template) (listed []byte, size int, err error) {
	p := t.Prompt()
	listed, err = json.Marshal(p)
	return listed, len(listed) + len(p.Name) + 16, err
}

// refresh serves everybody's prompts that are in the store, if they have changed.
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
