// Package gateway is the one way a call takes from any door to the bus: a chain
// of links, each of them one policy. Doors differ in wire format only; every call
// gets the same treatment here. The order of the links is the list order.
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

// handler carries out a call, or the rest of its way.
type handler func(ctx context.Context, r *run) (*Answer, error)

// link is one policy. It hands the call on to next, or refuses it by returning a
// *fault.Error.
type link func(next handler) handler

// only is the link for the calls that some reports, if not nil, and next for all
// others.
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

// order is the way of every call, from the door to the bus. A link is for some
// calls only, or for all where that is nil. One whose constructor returns nil is
// not configured.
var order = []struct {
	name string
	link func(cfg *Config) link
	only func(*run) bool
}{
	{"vouch", vouch, (*run).hasKey},            // says of a refusal whether its key was used
	{"audit", audit, nil},                      // records the call, whatever becomes of it
	{"authenticate", authenticate, nil},        // finds out who calls
	{"find", find, nil},                        // finds what the call reaches, if that is there
	{"limit", limit, nil},                      // bounds the calls of each caller, and their bytes
	{"authorize", authorize, nil},              // decides whether they may
	{"validate", validate, nil},                // checks the arguments
	{"gate", gate, (*run).Writes},              // refuses what could not be recorded
	{"state", state, nil},                      // seals what travels through the client
	{"deduplicate", deduplicate, (*run).keyed}, // before approve: what was done needs no second word
	{"approve", approve, (*run).wantsApproval}, // asks a person
	{"cache", cached, (*run).cacheable},        // after all that decides whether the caller may call
	{"begin", begin, (*run).Writes},            // records the call before its effect
	{"check", check, nil},                      // logs results that their schemas forbid
	{"dispatch", dispatch, nil},                // puts the call on the bus
}

// keyed reports whether an idempotency key says that the call runs once. Calls that do not
// write may run again.
func (r *run) keyed() bool {
	return r.IdempotencyKey != "" && r.Writes() && r.Target.Tool != nil
}

// wantsApproval reports whether somebody has to agree, or was asked already: what they
// said counts, whatever the policy says by now.
func (r *run) wantsApproval() bool { return r.demand.Needed || r.ofApproval || r.approved != nil }

func (r *run) cacheable() bool {
	t := r.Target.Tool
	return t != nil && t.Cache > 0 && t.ReadOnly && len(r.RequestState) == 0 && len(r.InputResponses) == 0
}

// Config holds the policies of a gateway. A nil policy is open, but for
// approvals: without any, calls that need one are refused.
type Config struct {
	Caller    *edges.Caller
	Catalogue *catalogue.Live
	Tasks     Tasks
	Logger    *slog.Logger

	Authenticator Authenticator
	// Client says where a client is that comes through a proxy; nil takes the address of
	// its connection.
	Client       func(*Credentials) string
	Access       Access
	Limiter      Limiter
	Approvals    Approvals
	Deduplicator Deduplicator
	// Budget bounds the results that are held for clients; nil is one of
	// budget.DefaultLimit.
	Budget *budget.Budget
	// Cache keeps results of tools that let it; nil keeps none.
	Cache   *Cache
	Auditor Auditor
	// Sealer defaults to one whose key dies with the process.
	Sealer *store.Sealer
	// Tracer records calls; nil records none.
	Tracer trace.Tracer
	// CheckResults logs where a tool's result is not what its output schema says; in a
	// flood of calls, of some.
	CheckResults bool

	// ListTools is how many tools a list for models may have before two tools that search
	// stand in for it; 0 for any number.
	ListTools int

	finder *finder
	// endings counts the credentials that ended before their time.
	endings *atomic.Int64
}

// Gateway carries calls from doors to services.
type Gateway struct {
	cfg Config
	// chain is the way of calls, entrance that of requests that reach no service.
	chain, entrance handler

	mu     sync.Mutex
	leases map[*Lease]struct{}
	// forget ends OnEnded; nil without.
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

// Do carries out a call. Every failure is a *fault.Error. onFrame may be nil. The
// result counts for the account of ctx until that is released; see Hold.
func (g *Gateway) Do(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
	return g.do(ctx, newRun(c, onFrame))
}

// do carries out what is at the beginning of the chain. What it asks is held, where
// its door cannot pass that on.
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
