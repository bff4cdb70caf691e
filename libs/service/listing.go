package service

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// ResourcePage is a part of a list of resources.
type ResourcePage struct {
	Resources []mcp.Resource `json:"resources"`
	// Next is the cursor of the page after this one; empty for the last. At most
	// 8 KiB.
	Next string `json:"nextCursor,omitzero"`
}

// ListFunc lists resources from a cursor on, which is empty for the first page. A page has at most
// limit resources and at most 512 KiB of JSON. The order must be stable: a client that reads all
// pages receives every resource that exists the whole time.
type ListFunc func(ctx context.Context, call *Call, cursor string, limit int) (ResourcePage, error)

// ListResources lists resources that are too many or change too often to be added one by one, or
// that only some callers may see. Clients see them in one list with the resources of AddResource
// and of other services. A template or AddResourcePrefix reads them. Changes are not noticed by
// themselves: call ResourcesUpdated.
func (s *Service) ListResources(list ListFunc) {
	s.register("list of resources", func() error {
		if list == nil {
			return errNoFunction
		}
		if s.list != nil {
			return errors.New("added twice")
		}
		s.list = list
		return nil
	})
}

// AddResourcePrefix reads every URI with a prefix. If several services match a URI, the one that
// announced a matching name first reads it; the empty prefix, which matches any URI, comes last.
// Within a service the longest prefix counts.
func (s *Service) AddResourcePrefix(prefix string, read ReadFunc) {
	s.register("resource prefix "+prefix, func() error {
		if read == nil {
			return errNoFunction
		}
		if s.prefixes[prefix] != nil {
			return errors.New("added twice")
		}
		s.prefixes[prefix] = read
		return nil
	})
}

// prefixReaderLocked returns the function that reads a URI by its prefix; nil for none.
func (s *Service) prefixReaderLocked(uri string) (read ReadFunc) {
	longest := -1
	for prefix, f := range s.prefixes {
		if len(prefix) > longest && strings.HasPrefix(uri, prefix) {
			longest, read = len(prefix), f
		}
	}
	return read
}

// PromptPage is a part of a list of prompts.
type PromptPage struct {
	Prompts []mcp.Prompt `json:"prompts"`
	// Next is as in ResourcePage.
	Next string `json:"nextCursor,omitzero"`
}

// ListPromptsFunc is the ListFunc of prompts.
type ListPromptsFunc func(ctx context.Context, call *Call, cursor string, limit int) (PromptPage, error)

// FindPromptFunc returns the prompt with that name that the call's tenant has; nil for none.
type FindPromptFunc func(ctx context.Context, call *Call, name string) (*ServedPrompt, error)

// tenantPrompts are the prompts of tenants; nil functions for none.
type tenantPrompts struct {
	list ListPromptsFunc
	find FindPromptFunc
}

// ListPrompts serves prompts that are a tenant's own. A caller with a tenant sees the prompts that
// find returns, and prompts of AddPrompt with other names; list lists both. A caller without a
// tenant sees only the prompts of AddPrompt. Only one service on the bus can serve tenants'
// prompts: the first to announce it. Call PromptsUpdated when they change.
func (s *Service) ListPrompts(list ListPromptsFunc, find FindPromptFunc) {
	s.register("list of prompts", func() error {
		if list == nil || find == nil {
			return errNoFunction
		}
		if s.tenantPrompts.list != nil {
			return errors.New("added twice")
		}
		s.tenantPrompts = tenantPrompts{list, find}
		return nil
	})
}

// PromptsUpdated tells clients of a tenant that its prompts have changed. It returns nil once the
// bus has stored the change, so that a client that is away for a while does not miss it. The error
// is unavailable while the service does not run.
func (s *Service) PromptsUpdated(ctx context.Context, tenant string) error {
	return s.record(ctx, bus.Updated{Service: s.name, Tenant: tenant, Prompts: true})
}

// part is the part of a list that an edge asks for.
type part struct {
	Cursor string `json:"cursor,omitzero"`
	Limit  int    `json:"limit"`
	// Name asks for the prompt of that name alone.
	Name string `json:"name,omitzero"`
}

// listed returns the page that an edge asks for. list is nil if the service has no such list.
func listed[L ~func(context.Context, *Call, string, int) (P, error), P any](ctx context.Context, call *Call, list L, named func(name string) (P, error)) (*busv1.Result, error) {
	if list == nil {
		return nil, methodNotFound(call.req.Method)
	}
	var in part
	if err := json.Unmarshal(call.req.Arguments, &in); err != nil || in.Limit < 1 {
		return nil, fault.New(fault.InvalidParams, "%s of a service needs a limit", call.req.Method).Because(err)
	}
	read := func() (P, error) { return list(ctx, call, in.Cursor, in.Limit) }
	if in.Name != "" && named != nil {
		read = func() (P, error) { return named(in.Name) }
	}
	page, err := read()
	if err != nil {
		return nil, err
	}
	data, err := marshal(page)
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}

func (s *Service) listPrompts(ctx context.Context, call *Call) (*busv1.Result, error) {
	list := look(s, func() ListPromptsFunc { return s.tenantPrompts.list })
	return listed(ctx, call, list, func(name string) (PromptPage, error) {
		p, err := s.prompt(ctx, call, name)
		if err != nil {
			return PromptPage{}, err
		}
		return PromptPage{Prompts: []mcp.Prompt{p.prompt}}, nil
	})
}

func (s *Service) listResources(ctx context.Context, call *Call) (*busv1.Result, error) {
	return listed(ctx, call, look(s, func() ListFunc { return s.list }), nil)
}
