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

// Listed is a list as one caller sees it.
type Listed struct {
	*catalogue.Snapshot
	g      *Gateway
	call   *Call
	kind   catalogue.Kind
	tenant string
}

// List returns the list of resources or prompts as the caller of c sees it. Only the door, the
// credentials, the client and the trace of c count.
func (g *Gateway) List(ctx context.Context, kind catalogue.Kind, c *Call) (*Listed, error) {
	p, err := g.Authenticate(ctx, c.Credentials)
	if err != nil {
		return nil, err
	}
	return &Listed{g.cfg.Catalogue.Now().For(g.cfg.view(p, &c.Credentials)), g, c, kind, p.Tenant}, nil
}

// Asks reports whether services are asked for a part of the list.
func (l *Listed) Asks() bool { return l.Lists(l.kind, l.tenant) }

// Page returns entries from a cursor on, including those that services list themselves; see
// catalogue.Snapshot.List. Asking a service is a call like others, on behalf of the caller that
// sees the list.
func (l *Listed) Page(ctx context.Context, cursor []byte, limit int) (entries [][]byte, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return l.List(ctx, l.kind, l.tenant, cursor, limit, func(ctx context.Context, service, cursor string, limit int) ([]byte, error) {
		return l.ask(ctx, service, question{Cursor: cursor, Limit: limit})
	})
}

// Prompt returns the entry of a prompt, or a *fault.Error with reason UnknownPrompt.
func (l *Listed) Prompt(ctx context.Context, name string) ([]byte, error) {
	target, ok := l.Snapshot.Prompt(name)
	if !ok {
		return nil, l.g.Absent(UnknownPrompt(name))
	}
	own, _ := l.PromptName(name)
	entry, here := l.Entry(l.kind, name)
	if _, asked := l.Lister(l.kind, target.Service); !asked || here && !l.Asks() {
		return entry, nil
	}
	raw, err := l.ask(ctx, target.Service, question{Name: own, Limit: 1})
	if err != nil {
		return nil, err
	}
	return l.Snapshot.Listed(l.kind, l.tenant, target.Service, name, raw)
}

// question is the request to a service for a page of its list.
type question struct {
	Cursor string `json:"cursor,omitzero"`
	Limit  int    `json:"limit"`
	Name   string `json:"name,omitzero"`
}

func (l *Listed) ask(ctx context.Context, service string, q question) ([]byte, error) {
	arguments, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	method := mcp.MethodResourcesList
	if l.kind == catalogue.Prompts {
		method = mcp.MethodPromptsList
	}
	answer, err := l.g.Do(ctx, &Call{
		Door: l.call.Door, Method: method, Name: service, Arguments: arguments,
		Credentials: l.call.Credentials, Client: l.call.Client, Traceparent: l.call.Traceparent, Tracestate: l.call.Tracestate,
	}, nil)
	if err != nil {
		return nil, err
	}
	if answer.Result == nil {
		return nil, fault.New(fault.Internal, "service %s did not answer %s", service, method)
	}
	return answer.Result.Json, nil
}
