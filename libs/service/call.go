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
	// ctx is what its handler gets: a part of the call, so that it costs nothing.
	ctx callContext
	// tool is nil unless the call is for one.
	tool *tool
	// isTask is set in the runs of a task.
	isTask bool
	// instance runs the call.
	instance *Running

	answered map[string][]byte
	state    []byte
	// replayed is said by the handler.
	replayed atomic.Bool
	// ranOthers says that a tool which the handler called may have run.
	ranOthers atomic.Bool
	// resource is nil unless the handler says what it reads.
	resource atomic.Pointer[mcp.Resource]
	// expires is nil unless the handler says when its result becomes old.
	expires atomic.Pointer[time.Time]
	// logger is nil until it is asked for.
	logger atomic.Pointer[slog.Logger]
}

// within is a context that has the call.
func (c *Call) within(ctx context.Context) context.Context {
	c.ctx = callContext{ctx, c}
	return &c.ctx
}

// output takes what a handler says before it returns.
type output interface {
	Progress(*busv1.Progress)
	Log(*busv1.Log)
	Disconnect(retry time.Duration)
}

// ID names the call in logs and audit, the same in every attempt. In a task it
// is the task's, the same in every run.
func (c *Call) ID() string { return bus.FirstID(c.req.Id) }

// Tool is the name of the tool that is called; empty for a call of anything else.
func (c *Call) Tool() string {
	if c.tool == nil {
		return ""
	}
	return c.req.Name
}

// Principal is who calls; "anonymous" where the edge runs without
// authentication.
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

// Replayed tells that nothing ran, and that what the handler returns is the answer
// of an earlier call with the same IdempotencyKey. It is for tools with
// Tool.KeepsKeys: the audit trail then has one effect of the calls with the key, not
// one of each, and clients are told where their protocol has a place for it.
func (c *Call) Replayed() { c.replayed.Store(true) }

// Describe says what is known of the resource that is being read, besides its contents. Use it for
// resources of ListResources; resources of AddResource are described already.
func (c *Call) Describe(r mcp.Resource) { c.resource.Store(&r) }

// Expires sets the time until which edges may cache the result; Tool.Cache stays the upper limit. A
// time in the past, or zero, means: do not cache.
func (c *Call) Expires(at time.Time) { c.expires.Store(&at) }

// cacheMs is how long the result may be kept; nil as long as the tool says.
func (c *Call) cacheMs() *uint32 {
	at := c.expires.Load()
	if at == nil {
		return nil
	}
	left := min(max(time.Until(*at).Milliseconds(), 0), math.MaxUint32)
	return new(uint32(left))
}

// Progress tells the client how far the call has come. done must increase from
// call to call; total is 0 when unknown. It costs nothing when the client did
// not ask, and never blocks. In a task it is the status message: the latest of
// each second, cut at 200 bytes.
func (c *Call) Progress(done, total float64, message string) {
	if c.req.WantsProgress {
		c.out.Progress(&busv1.Progress{Progress: done, Total: total, Message: message})
	}
}

// Disconnect lets go of the client's connection during a long call; the client
// comes back after retry and gets the rest of the answer, at any edge. 0 leaves
// the time to the edge. It does nothing for a client that cannot come back.
func (c *Call) Disconnect(retry time.Duration) { c.out.Disconnect(retry) }

// Log sends a log record to the client, if it asked for that level. level is
// one of mcp.LogLevels, data any JSON value. Credentials, personal data and
// internals must not be in it. A task's client gets none. Operators who follow the
// service ("busbar logs") see it whatever the client asked for.
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
