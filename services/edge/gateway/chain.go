// Package gateway is the only way of a call from any door to the bus: a chain of links, each of
// which applies one policy. Doors differ in wire format only; every call gets the same treatment
// here. Start with order in this file: it lists the links as a call passes them. Gateway.Do
// carries out a call, Gateway.Enter admits a request that no service answers, and Gateway.Lease
// keeps a stream open.
package gateway

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/tracing"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// handler carries out a call, or the rest of the chain for it.
type handler func(ctx context.Context, r *run) (*Answer, error)

// link is one policy. It passes the call to next, or refuses it by returning a *fault.Error.
type link func(next handler) handler

// only applies the link to the calls for which some reports true, or to all if some is nil. Other
// calls go to next.
func (l link) only(some func(*run) bool, next handler) handler {
	with := l(next)
	if some == nil {
		return with
	}
	return func(ctx context.Context, r *run) (*Answer, error) {
		if some(r) {
			return with(ctx, r)
		}
		return next(ctx, r)
	}
}

// order is the chain that every call passes, from the door to the bus. A link with a condition
// applies only to the calls that meet it. A link whose constructor returns nil is not configured.
var order = []struct {
	name string
	link func(cfg *Config) link
	only func(*run) bool
}{
	{"vouch", vouch, (*run).hasKey},            // says of a refusal whether its key was used
	{"audit", audit, nil},                      // records the call, whatever its result
	{"authenticate", authenticate, nil},        // identifies the caller
	{"find", find, nil},                        // finds the target of the call, if it exists
	{"limit", limit, nil},                      // bounds the calls of each caller, and their bytes
	{"authorize", authorize, nil},              // decides whether the caller may call the target
	{"validate", validate, nil},                // checks the arguments
	{"gate", gate, (*run).Writes},              // refuses calls that could not be recorded
	{"state", state, nil},                      // seals the state that travels through the client
	{"deduplicate", deduplicate, (*run).keyed}, // before approve: a call that ran needs no second approval
	{"approve", approve, (*run).wantsApproval}, // asks a person
	{"cache", cached, (*run).cacheable},        // after all links that decide whether the caller may call
	{"begin", begin, (*run).Writes},            // records the call before its effect
	{"check", check, nil},                      // logs results that do not match their schemas
	{"dispatch", dispatch, nil},                // puts the call on the bus
}

// keyed reports whether an idempotency key makes the call run once. Calls that do not write may
// run again.
func (r *run) keyed() bool {
	return r.IdempotencyKey != "" && r.Writes() && r.Target.Tool != nil
}

// wantsApproval reports whether a person has to approve the call, or was asked already: that
// answer counts, whatever the policy says by now.
func (r *run) wantsApproval() bool { return r.demand.Needed || r.consent != nil || r.approved != nil }

func (r *run) cacheable() bool {
	t := r.Target.Tool
	return t != nil && t.Cache > 0 && t.ReadOnly && len(r.RequestState) == 0 && len(r.InputResponses) == 0
}

// Config holds the policies of a gateway. A nil policy allows everything, except Approvals:
// without them, calls that need approval are refused.
type Config struct {
	Caller    *edges.Caller
	Catalogue *catalogue.Live
	Tasks     Tasks
	Logger    *slog.Logger

	Authenticator Authenticator
	// Client returns the address of a client that comes through a proxy; nil takes the address of
	// the connection.
	Client       func(*Credentials) string
	Access       Access
	Limiter      Limiter
	Approvals    Approvals
	Deduplicator Deduplicator
	// Budget bounds the results that are held for clients; nil means a budget of
	// budget.DefaultLimit.
	Budget *budget.Budget
	// Cache keeps results of tools that allow it; nil keeps none.
	Cache   *Cache
	Auditor Auditor
	// Sealer defaults to one whose key dies with the process.
	Sealer *store.Sealer
	// Tracer records calls; nil records none.
	Tracer trace.Tracer
	// CheckResults logs results that do not match the output schema of their tool. In a flood of
	// calls, only some are checked.
	CheckResults bool

	// ListTools is how many tools a list for models may have before two search tools replace it;
	// 0 means any number.
	ListTools int

	finder *finder
	// endings counts the credentials that ended before their time.
	endings *atomic.Int64
}

// Gateway carries calls from doors to services.
type Gateway struct {
	cfg Config
	// chain is for calls, entrance for requests that no service answers.
	chain, entrance handler

	mu     sync.Mutex
	leases map[*Lease]struct{}
	// forget ends OnEnded; nil if there is no Ender.
	forget func()
}

// New builds the chain.
func New(cfg Config) *Gateway {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Authenticator == nil {
		cfg.Authenticator = everybody{}
	}
	if cfg.Access == nil {
		cfg.Access = Open{}
	}
	if cfg.Limiter == nil {
		cfg.Limiter = NewInFlight(DefaultInFlight)
	}
	if cfg.Budget == nil {
		cfg.Budget = budget.New(0)
	}
	if cfg.Sealer == nil {
		cfg.Sealer = store.NewSealer(store.OwnKeys())
	}
	cfg.Auditor = logged{cfg.Logger, cfg.Auditor}
	cfg.endings, cfg.finder = &atomic.Int64{}, &finder{}
	g := &Gateway{cfg: cfg, leases: map[*Lease]struct{}{}}
	g.entrance = authenticate(&g.cfg)(limit(&g.cfg)(entered))
	for i := len(order) - 1; i >= 0; i-- {
		if l := order[i].link(&g.cfg); l != nil {
			g.chain = l.only(order[i].only, g.chain)
		}
	}
	if e, ok := cfg.Authenticator.(Ender); ok {
		g.forget = e.OnEnded(g.ended)
	}
	return g
}

// Close stops listening for credentials that end.
func (g *Gateway) Close() {
	if g.forget != nil {
		g.forget()
	}
}

// Do carries out a call. Every failure is a *fault.Error. onFrame may be nil. The result counts
// for the account of ctx until that is released; see Track.
func (g *Gateway) Do(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
	return g.do(ctx, newRun(c, onFrame))
}

// do carries out a call from the beginning of the chain. If the tool asks its caller and the door
// cannot pass that on, the call is held.
func (g *Gateway) do(ctx context.Context, r *run) (*Answer, error) {
	ctx = tracing.Remote(ctx, r.Traceparent, r.Tracestate)
	carry := g.chain
	if g.cfg.Tracer != nil {
		carry = g.traced
	}
	answer, err := carry(ctx, r)
	if err != nil {
		return answer, r.onward(err)
	}
	answer.Tool = r.Target.Tool
	if r.AskLater && answer.InputRequired != nil {
		return nil, r.elicit(ctx, &g.cfg, answer.InputRequired)
	}
	return answer, nil
}

// newRun is a call at the beginning of the chain.
func newRun(c *Call, onFrame OnFrame) *run {
	r := &run{said: *c, onFrame: c.asked(onFrame)}
	r.Call, r.ID = &r.said, bus.NewCallID()
	if r.Received.IsZero() {
		r.Received = time.Now()
	}
	return r
}
