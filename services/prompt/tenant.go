package prompt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

// find returns the prompt of a name that the tenant of a call owns.
func (s *prompts) find(ctx context.Context, call *service.Call, name string) (*service.ServedPrompt, error) {
	v, err := s.store.Get(ctx, call.Tenant(), name, 0)
	if fault.Is(err, fault.UnknownPrompt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t, err := compile(v)
	if err != nil {
		return nil, fmt.Errorf("prompt %s in version %d: %w", v.Name, v.Number, err)
	}
	p := serves(t)
	return &p, nil
}

// everybodys returns the shared prompts by name; they must not be changed.
func (s *prompts) everybodys() map[string]served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served // replaced, never changed
}

// A cursor names the prompt before a page: one of the tenant, or a shared one.
const (
	afterOwn        = "o"
	afterEverybodys = "e"
)

// pageBytes bounds a page of a list, except its last entry.
const pageBytes = 256 << 10

// page lists the prompts that a tenant's caller sees: the tenant's, then the shared
// ones.
func (s *prompts) page(ctx context.Context, call *service.Call, cursor string, limit int) (page service.PromptPage, err error) {
	size := 0
	full := func() bool { return len(page.Prompts) >= limit || size >= pageBytes }
	// Without a cursor the first page is returned.
	after, inEverybodys := strings.CutPrefix(cursor, afterEverybodys)
	if !inEverybodys {
		after = strings.TrimPrefix(cursor, afterOwn)
		own, err := s.store.List(ctx, call.Tenant(), after, limit+1)
		if err != nil {
			return page, err
		}
		for i, l := range own {
			if full() {
				page.Next = afterOwn + own[i-1].Name
				return page, nil
			}
			var p mcp.Prompt
			if err := json.Unmarshal(l.Entry, &p); err != nil {
				return page, fmt.Errorf("prompt %s in lists: %w", l.Name, err)
			}
			page.Prompts, size = append(page.Prompts, p), size+len(l.Entry)
		}
		after = ""
	}
	covered, err := s.store.Covered(ctx, call.Tenant())
	if err != nil {
		return page, err
	}
	everybodys := s.everybodys()
	for _, name := range slices.Sorted(maps.Keys(everybodys)) {
		if name <= after || slices.Contains(covered, name) {
			continue
		}
		if full() {
			page.Next = afterEverybodys + after
			return page, nil
		}
		t := everybodys[name].template
		_, more, err := entry(t)
		if err != nil {
			return page, err
		}
		page.Prompts, size, after = append(page.Prompts, t.Prompt()), size+more, name
	}
	return page, nil
}

// all returns the prompts that a caller sees, for list_prompts.
func (s *prompts) all(ctx context.Context, tenant string) (map[string]ListedOut, error) {
	all := map[string]ListedOut{}
	for name, p := range s.everybodys() {
		d := p.template.Definition()
		all[name] = ListedOut{d.Name, d.Title, d.Description, p.version}
	}
	for after := ""; tenant != ""; {
		own, err := s.store.List(ctx, tenant, after, ownAtOnce)
		if err != nil {
			return nil, err
		}
		for _, l := range own {
			var p mcp.Prompt
			if err := json.Unmarshal(l.Entry, &p); err != nil {
				return nil, fmt.Errorf("prompt %s in lists: %w", l.Name, err)
			}
			all[l.Name], after = ListedOut{l.Name, p.Title, p.Description, l.Version}, l.Name
		}
		if len(own) < ownAtOnce {
			break
		}
	}
	return all, nil
}

// ownAtOnce is how many prompts of a tenant are read in one step.
const ownAtOnce = 250

// own asks the store for the prompt of a name that a tenant sees: its own, or the shared
// one.
func own[T any](tenant string, ask func(tenant string) (T, error)) (T, error) {
	out, err := ask(tenant)
	if tenant != "" && fault.Is(err, fault.UnknownPrompt) {
		return ask("")
	}
	return out, err
}

// ofEverybody explains a failed change by a tenant if the prompt is a shared one.
func (s *prompts) ofEverybody(ctx context.Context, c store.Change, err error) error {
	if c.Tenant == "" || !fault.Is(err, fault.UnknownPrompt) {
		return err
	}
	if _, is := s.store.Get(ctx, "", c.Name, 0); is != nil {
		return err
	}
	return fault.New(fault.Forbidden, "Prompt %s is shared by all tenants, so you cannot change it; use create_prompt to make your own with the same name", c.Name)
}

// fits requires that a prompt of a tenant can be listed.
func fits(t *template.Template) ([]byte, int, error) {
	listed, size, err := entry(t)
	if err == nil && size > pageBytes {
		err = fault.New(fault.TooLarge, "its name, descriptions and arguments have %d bytes; the limit is %d", size, pageBytes)
	}
	return listed, size, err
}
