package service

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Identity is the caller, as the edge has authenticated it.
type Identity struct {
	// Principal is "anonymous" where the edge runs without authentication.
	Principal string
	// Tenant is empty where there is only one.
	Tenant string
	// Scopes and Roles come from the caller's credentials.
	Scopes, Roles []string
	// Program is set if the caller is a program that acts for itself, not for a person.
	Program bool
}

// Has reports whether the caller has a scope.
func (i Identity) Has(scope string) bool { return slices.Contains(i.Scopes, scope) }

// Identity returns the caller.
func (c *Call) Identity() Identity {
	i := c.req.GetIdentity()
	return Identity{c.Principal(), c.Tenant(), slices.Clone(i.GetScopes()), slices.Clone(i.GetRoles()), i.GetProgram()}
}

// Meta is the part of the client's _meta that is for the service, a JSON object without the members
// that the protocol or an edge reads. It is nil without such members, and for doors other than MCP.
// Use it for hints, such as a language: approvals, idempotency keys and cached results ignore it,
// and a call that was held for approval has none.
func (c *Call) Meta() jsontext.Value { return c.req.Meta }

// Logger returns the service's logger with attributes of the call: its id, the tool (or prompt, or
// resource), the principal, the tenant and the trace_id, as far as they exist. It is created at the
// first call of Logger. Operators who follow the service ("busbar logs") see its records, even
// those below the level of the service's log.
func (c *Call) Logger() *slog.Logger {
	if l := c.logger.Load(); l != nil {
		return l
	}
	of := []any{"service", c.instance.service.name, "call", c.ID()}
	add := func(key, value string) {
		if value != "" {
			of = append(of, key, fault.Clip(value))
		}
	}
	add(cmp.Or(kinds[c.req.Method], "name"), c.req.Name)
	add("principal", c.Principal())
	add("tenant", c.Tenant())
	add("trace_id", traceID(c.req.Traceparent))
	l := slog.New(&followed{own: c.instance.service.Logger().With(of...).Handler(), call: c})
	c.logger.Store(l)
	return l
}

// logger returns the logger of a request, whose records operators can follow.
func (r *Running) logger(req *busv1.Request) *slog.Logger {
	return (&Call{req: req, instance: r}).Logger()
}

var kinds = map[string]string{mcp.MethodToolsCall: "tool", mcp.MethodPromptsGet: "prompt", mcp.MethodResourcesRead: "resource"}

// traceID is the part of a traceparent that logs and traces share.
func traceID(parent string) string {
	if len(parent) < 35 {
		return ""
	}
	return parent[3:35]
}

// FromContext returns the call of a context: the context given to the handler, or one derived from
// it.
func FromContext(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(callKey{}).(*Call)
	return c, ok
}

type callKey struct{}

// callContext is the context of a handler. It is a part of the Call, so that finding the call in
// its context allocates nothing.
type callContext struct {
	context.Context
	call *Call
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}
