package gateway

import (
	"context"
	"log/slog"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Config holds the policies of a gateway. A nil policy is open, but for
// approvals: without any, calls that need one are refused.
type Config struct {
	Caller    *edges.Caller
	Catalogue *catalogue.Live
	Tasks     Tasks
	Logger    *slog.Logger

	Authenticator Authenticator
	Authorizer    Authorizer
	Limiter       Limiter
	Approvals     Approvals
	Deduplicator  Deduplicator
	// Budget bounds the results that are held for clients; nil is one of
	// budget.DefaultLimit.
	Budget *budget.Budget
	// Cache keeps results of tools that let it; nil keeps none.
	Cache   *Cache
	Auditor Auditor
	// Sealer defaults to one whose key dies with the process.
	Sealer *Sealer
	// CheckResults logs where a tool's result is not what its output schema says.
	CheckResults bool
}

// Gateway carries calls from doors to services.
type Gateway struct {
	caller        *edges.Caller
	catalogue     *catalogue.Live
	tasks         Tasks
	authenticator Authenticator
	sealer        *Sealer
	auditor       Auditor
	approvals     Approvals
	budget        *budget.Budget
	chain         Next
}

// New builds the chain: audit around everything, then authenticate, authorize,
// limit, tasks, validate, gate, protect, deduplicate, approve, cached, begin, dispatch.
func New(cfg Config) *Gateway {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Authenticator == nil {
		cfg.Authenticator = open{}
	}
	if cfg.Authorizer == nil {
		cfg.Authorizer = open{}
	}
	if cfg.Limiter == nil {
		cfg.Limiter = NewInFlight(DefaultInFlight)
	}
	if cfg.Deduplicator == nil {
		cfg.Deduplicator = open{}
	}
	if cfg.Budget == nil {
		cfg.Budget = budget.New(0)
	}
	cfg.Auditor = logged{cfg.Logger, cfg.Auditor}
	if cfg.Sealer == nil {
		cfg.Sealer = NewSealer(ownKeys())
	}
	links := []Link{
		audit(cfg.Auditor),
		authenticate(cfg.Authenticator, cfg.Sealer),
		authorize(cfg.Authorizer),
		limit(cfg.Limiter),
		carry(cfg.Budget),
		begin(cfg.Auditor), // what has an effect by its method alone
		tasks(cfg.Tasks),
		validate(cfg.Catalogue),
		gate(cfg.Auditor),
		protect(cfg.Sealer),
		deduplicate(cfg.Deduplicator),
		approve(cfg.Approvals, cfg.Caller),
		cached(cfg.Cache),
		begin(cfg.Auditor),
	}
	if cfg.CheckResults {
		links = append(links, checkResults(cfg.Logger))
	}
	next := dispatch(cfg.Caller, cfg.Tasks, cfg.Sealer)
	for i := len(links) - 1; i >= 0; i-- {
		link, rest := links[i], next
		next = func(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
			return link(ctx, c, onFrame, rest)
		}
	}
	return &Gateway{
		caller: cfg.Caller, catalogue: cfg.Catalogue, tasks: cfg.Tasks, authenticator: cfg.Authenticator,
		sealer: cfg.Sealer, auditor: cfg.Auditor, approvals: cfg.Approvals,
		budget: cfg.Budget, chain: next,
	}
}

// Do carries out a call. Every failure is a *fault.Error. onFrame may be nil. The
// result counts for the account of ctx until that is released; see Hold.
func (g *Gateway) Do(ctx context.Context, c *Call, onFrame OnFrame) (*Answer, error) {
	return g.chain(ctx, c, onFrame)
}

// Hold opens an account for the results of a request that a client makes. Doors
// release it when the answer is written, or nobody waits for it.
func (g *Gateway) Hold(ctx context.Context) (_ context.Context, release func()) {
	return g.budget.Open(ctx, g.budget.MaxRequest())
}

// HoldAny is Hold for requests that are answered bit by bit, however much that is
// in all; each bit is a budget.Part.
func (g *Gateway) HoldAny(ctx context.Context) (_ context.Context, release func()) {
	return g.budget.Open(ctx, 0)
}

// Ask makes room for the answer of a client that is asked for input.
func (g *Gateway) Ask() *edges.ClientRequest { return g.caller.Ask() }

// Answer hands a client's answer to the edge that asked.
func (g *Gateway) Answer(id string, answer *edgev1.ClientAnswer) error {
	return g.caller.Answer(id, answer)
}

// CancelElsewhere passes on that a client gave up a request of its session,
// which another edge may hold.
func (g *Gateway) CancelElsewhere(session string, requestID []byte) error {
	return g.caller.CancelElsewhere(session, requestID)
}

// OnTask calls f at every change of a task until stop is called. It says
// nothing of the task: what the client may know of it, Do finds out.
func (g *Gateway) OnTask(id string, f func()) (stop func(), err error) { return g.tasks.OnWrite(id, f) }

// OpenMailbox makes room for what a client posts, at this edge or another.
func (g *Gateway) OpenMailbox(c Credentials) *edges.Mailbox { return g.caller.OpenMailbox(c.digest()) }

// Post hands what a client posted to the edge with the mailbox, if it was opened
// with the same credentials.
func (g *Gateway) Post(ctx context.Context, address string, c Credentials, body []byte) error {
	return g.caller.Post(ctx, address, c.digest(), body)
}

// Catalogue is what the services offer now.
func (g *Gateway) Catalogue() *catalogue.Live { return g.catalogue }

// open is the policy that asks nothing.
type open struct{}

func (open) Authenticate(context.Context, Credentials) (Principal, error) { return Anonymous, nil }
func (open) Authorize(context.Context, *Call) error                       { return nil }
func (open) Once(ctx context.Context, _ *Call, run func(context.Context) (*Answer, error)) (*Answer, error) {
	return run(ctx)
}
