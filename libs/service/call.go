package service

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Call is one request as a handler sees it. Its methods may be used from any
// goroutine until the handler returns.
type Call struct {
	req *busv1.Request
	out output
	// ctx is the handler's context. It is a part of the call, so it needs no allocation of its own.
	ctx callContext
	// tool is nil unless the call is for a tool.
	tool *tool
	// isTask is set in the runs of a task.
	isTask bool
	// instance runs the call.
	instance *Running

	answered map[string][]byte
	state    []byte
	// replayed is set by the handler; see Replayed.
	replayed atomic.Bool
	// ranOthers is set if a tool that the handler called may have run.
	ranOthers atomic.Bool
	// resource is nil unless the handler describes the resource that it reads.
	resource atomic.Pointer[mcp.Resource]
	// expires is nil unless the handler sets an expiry time for its result.
	expires atomic.Pointer[time.Time]
	// logger is nil until it is asked for.
	logger atomic.Pointer[slog.Logger]
}

// within returns a context that carries the call.
func (c *Call) within(ctx context.Context) context.Context {
	c.ctx = callContext{ctx, c}
	return &c.ctx
}

// output takes a handler's notifications: progress, logs, disconnects.
type output interface {
	Progress(*busv1.Progress)
	Log(*busv1.Log)
	Disconnect(retry time.Duration)
}

// ID is the id of the call in logs and in the audit trail, the same in every attempt. In a task it
// is the id of the task, the same in every run.
func (c *Call) ID() string { return bus.FirstID(c.req.Id) }

// Tool is the name of the tool that is called; empty if the call is not of a tool.
func (c *Call) Tool() string {
	if c.tool == nil {
		return ""
	}
	return c.req.Name
}

// Principal is the authenticated caller; "anonymous" where the edge runs without authentication.
func (c *Call) Principal() string {
	if p := c.req.GetIdentity().GetPrincipal(); p != "" {
		return p
	}
	return "anonymous"
}

// Tenant is the caller's tenant; empty where there is only one.
func (c *Call) Tenant() string { return c.req.GetIdentity().GetTenant() }

// Client is how the client describes itself. Untrusted: for display and logs.
func (c *Call) Client() mcp.Implementation {
	return mcp.Implementation{Name: c.req.GetClient().GetName(), Version: c.req.GetClient().GetVersion()}
}

// Trace is the caller's W3C Trace Context, traceparent and tracestate, for calls
// that the handler makes itself; empty if the caller gave none.
func (c *Call) Trace() (parent, state string) { return c.req.Traceparent, c.req.Tracestate }

// IdempotencyKey is the same in every repetition of a call; empty if the
// caller gave none.
func (c *Call) IdempotencyKey() string { return c.req.IdempotencyKey }

// Replayed says that nothing ran, because the handler returns the result of an earlier call with
// the same IdempotencyKey. It is for tools with Tool.KeepsKeys: the audit trail then records one
// effect for all calls with the key, and clients are told if their protocol can express it.
func (c *Call) Replayed() { c.replayed.Store(true) }

// Describe adds a description of the resource that is being read to its contents. Use it for
// resources of ListResources; resources of AddResource are described already.
func (c *Call) Describe(r mcp.Resource) { c.resource.Store(&r) }

// Expires sets the time until which edges may cache the result; Tool.Cache stays the upper limit. A
// time in the past, or zero, means: do not cache.
func (c *Call) Expires(at time.Time) { c.expires.Store(&at) }

// cacheMs is how long the result may be cached, in milliseconds; nil means as long as the tool's
// Cache.
func (c *Call) cacheMs() *uint32 {
	at := c.expires.Load()
	if at == nil {
		return nil
	}
	left := min(max(time.Until(*at).Milliseconds(), 0), math.MaxUint32)
	return new(uint32(left))
}

// Progress tells the client how far the call has come. done must increase from one report to the
// next; total is 0 if unknown. It costs nothing if the client did not ask for progress, and never
// blocks. In a task, message becomes the task's status message: the latest of each second, cut at
// 200 bytes.
func (c *Call) Progress(done, total float64, message string) {
	if c.req.WantsProgress {
		c.out.Progress(&busv1.Progress{Progress: done, Total: total, Message: message})
	}
}

// Disconnect closes the client's connection during a long call; the client reconnects after retry,
// at any edge, and receives the rest of the answer. With 0 the edge chooses the time. It does
// nothing for a client that cannot reconnect.
func (c *Call) Disconnect(retry time.Duration) { c.out.Disconnect(retry) }

// Log sends a log record to the client, if it asked for that level. level is one of mcp.LogLevels,
// data any JSON value. It must not contain credentials, personal data or internals. Clients of
// tasks receive no log records. Operators who follow the service ("busbar logs") see it whatever
// the client asked for.
func (c *Call) Log(level, logger string, data any) {
	wire := levels[level]
	asked := c.req.LogLevel != busv1.LogLevel_LOG_LEVEL_UNSPECIFIED && wire >= c.req.LogLevel
	followed := wire != 0 && c.instance.tap.Wants(int(wire))
	if !asked && !followed {
		return
	}
	encoded := sync.OnceValue(func() []byte {
		raw, err := marshal(data)
		if err != nil {
			c.instance.service.Logger().Warn("log record for the client cannot be encoded", "call", c.ID(), "error", err)
			return nil
		}
		return raw
	})
	if asked && encoded() != nil {
		c.out.Log(&busv1.Log{Level: wire, Logger: logger, Data: encoded()})
	}
	if followed {
		c.instance.tap.Say(c.of(), int(wire), true, logger, encoded)
	}
}

var levels = func() map[string]busv1.LogLevel {
	m := map[string]busv1.LogLevel{}
	for i, name := range mcp.LogLevels {
		m[name] = busv1.LogLevel(i + 1)
	}
	return m
}()
