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

// Identity is who calls, as the edge established it.
type Identity struct {
	// Principal is "anonymous" where the edge runs without authentication.
	Principal string
	// Tenant is empty where there is only one.
	Tenant string
	// Scopes and Roles are those that the caller's credentials brought.
	Scopes, Roles []string
	// Program: the caller is a program on its own behalf, not for a person.
	Program bool
}

// Has reports whether the caller has a scope.
func (i Identity) Has(scope string) bool { return slices.Contains(i.Scopes, scope) }

// Identity is who calls.
func (c *Call) Identity() Identity {
	i := c.req.GetIdentity()
	return Identity{c.Principal(), c.Tenant(), slices.Clone(i.GetScopes()), slices.Clone(i.GetRoles()), i.GetProgram()}
}

// Meta is what the client put into _meta for the service, a JSON object: without
// what the protocol or an edge reads there. Nil for none, and at doors other than
// MCP's. It is for hints, such as a language: an approval, an idempotency key and a
// kept result do not look at it, and a call that was held has none.
func (c *Call) Meta() jsontext.Value { return c.req.Meta }

// Logger is the service's log, with what the call is: its id, the tool (or prompt,
// or resource), the principal, the tenant and the trace_id, where there are any. It is
// made when it is first asked for. Operators who follow the service ("busbar logs") see
// what it is told, also below the level of the service's log.
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

// logger is the log of a request, which operators follow.
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

// callContext is the context of a handler. It is a part of the Call, so that it
// costs a call nothing to be found in its context.
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
