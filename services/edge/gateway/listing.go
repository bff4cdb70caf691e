package gateway

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// listTime bounds one page of a list, however many services are asked.
//
//limit:time time to make a page of a list of resources, from all services | the page ends there
const listTime = 10 * time.Second

// List admits a request for a list, and returns a page of it as the caller of c sees it, and the
// catalogue from which it was made; see catalogue.Snapshot.List. Asking a service is a call like
// others, on behalf of the caller. Only the door, the credentials, the client and the trace of c
// count for it.
func (g *Gateway) List(ctx context.Context, kind catalogue.Kind, c *Call, cursor []byte, limit int) (*catalogue.Snapshot, *catalogue.Page, error) {
	now, tenant, err := g.Browse(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if tools := kind == catalogue.Tools || kind == catalogue.LegacyTools; tools && limit == 0 && cursor == nil && g.few(now, &c.Credentials) {
		return now, catalogue.Ready(StandIns), nil
	}
	end := time.Now().Add(listTime)
	page, err := now.List(ctx, kind, tenant, cursor, limit, func(ctx context.Context, service, cursor string, limit int) ([]byte, error) {
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		return g.askLister(ctx, kind, c, service, question{Cursor: cursor, Limit: limit})
	})
	return now, page, err
}

// FindPrompt admits a request for the entry of a prompt, and returns it. The error has reason
// UnknownPrompt if the caller sees no such prompt.
func (g *Gateway) FindPrompt(ctx context.Context, c *Call, name string) ([]byte, error) {
	now, tenant, err := g.Browse(ctx, c)
	if err != nil {
		return nil, err
	}
	target, ok := now.Prompt(name)
	if !ok {
		return nil, g.Absent(UnknownPrompt(name))
	}
	entry, here := now.Entry(catalogue.Prompts, name)
	if _, asked := now.Lister(catalogue.Prompts, target.Service); !asked || here && !now.Lists(catalogue.Prompts, tenant) {
		return entry, nil
	}
	own, _ := now.PromptName(name)
	raw, err := g.askLister(ctx, catalogue.Prompts, c, target.Service, question{Name: own, Limit: 1})
	if err != nil {
		return nil, err
	}
	return now.Listed(catalogue.Prompts, tenant, target.Service, name, raw)
}

// Browse admits a request that no service answers, as Enter does, and returns the catalogue as its
// caller sees it, and the caller's tenant.
func (g *Gateway) Browse(ctx context.Context, c *Call) (*catalogue.Snapshot, string, error) {
	who, err := g.enter(ctx, c)
	if err != nil {
		return nil, "", err
	}
	return g.cfg.Catalogue.Now().For(g.cfg.view(who, &c.Credentials)), who.Tenant, nil
}

// question is the request to a service for a page of its list.
type question struct {
	Cursor string `json:"cursor,omitzero"`
	Limit  int    `json:"limit"`
	Name   string `json:"name,omitzero"`
}

func (g *Gateway) askLister(ctx context.Context, kind catalogue.Kind, c *Call, service string, q question) ([]byte, error) {
	arguments, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	method := mcp.MethodResourcesList
	if kind == catalogue.Prompts {
		method = mcp.MethodPromptsList
	}
	answer, err := g.Do(ctx, &Call{
		Door: c.Door, Method: method, Name: service, Arguments: arguments,
		Credentials: c.Credentials, Client: c.Client, Traceparent: c.Traceparent, Tracestate: c.Tracestate,
	}, nil)
	if err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, fault.New(fault.Internal, "service %s did not answer %s", service, method)
	}
	return answer.Result.Json, nil
}
