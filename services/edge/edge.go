// Package edge is the service that clients talk to: the doors, the gateway that every
// call passes, and the bus behind it. Any number of edges serve the same clients; no edge
// holds state that another one could not take over.
//
// Start with New in edge.go, which builds an edge, and Handler in http.go, which lists
// the doors over HTTP. The flags are in command.go, listen.go and authenticate.go.
package edge

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
	"github.com/busbar-mcp/busbar/services/edge/metrics"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Config configures an edge.
type Config struct {
	// Version is the edge's own SemVer.
	Version string
	// Guard protects the HTTP doors. Serve sets Loopback for a loopback listener.
	Guard door.Guard
	// Authenticator finds the caller of a request; nil: everybody is gateway.Anonymous.
	Authenticator gateway.Authenticator
	// Client: see gateway.Config.
	Client func(*gateway.Credentials) string
	// Access decides what callers may do; nil: everybody may do everything.
	Access gateway.Access
	// ListTools: see gateway.Config.
	ListTools int
	// Limiter admits calls; nil: gateway.DefaultInFlight concurrent calls.
	Limiter gateway.Limiter
	// Limits are the limits of principals, tenants and tools, which all edges hold
	// together; nil: none.
	Limits limit.Rules
	// Replicas is the number of NATS servers that keep each of the edge's buckets and
	// streams.
	Replicas storage.Replicas
	// Guest leaves the calls that tools make to the other edges of the bus. An edge that
	// comes and goes with one client would, when it goes, end calls of other clients.
	Guest bool
	// ResultBytes bounds the results that the edge holds for clients that have not read
	// them yet; 0: budget.DefaultLimit.
	ResultBytes int64
	Audit       Audit
	// CheckResults logs results of tools that do not match their output schema; in a
	// flood of calls, only some of them. It is for development and tests, because each
	// result is read once more.
	CheckResults bool
	// Tracer traces calls; nil traces none. See otlp.Traces.Edge.
	Tracer trace.Tracer
	Logger *slog.Logger
}

// Audit says how calls are recorded.
type Audit struct {
	// Off records nothing.
	Off bool
	// SpoolDir: see audit.Config. Token: see trail.Config.
	SpoolDir string
	Token    token.Token
}

// Edge is a connected edge: everything but its listeners.
type Edge struct {
	cfg         Config
	conn        *bus.Conn
	storage     *storage.Storage
	caller      *edges.Caller
	live        *catalogue.Live
	sessions    *store.Sessions
	gateway     *gateway.Gateway
	trail       *audit.Trail // nil for none
	server      *protocol.Server
	api         *api.Server
	connections *door.Connections
	services    *bus.Server    // nil for a guest
	limits      *limit.Limiter // nil for none
	looks       chan struct{}  // a slot for each concurrent look at limits
	metrics     *metrics.Metrics
	tls         *listener.TLS // of ServeAll; nil for none
	leaving     leaving
	// unwritten is why the audit service writes nothing, as it says itself; nil if it
	// writes.
	unwritten atomic.Pointer[string]

	// cleanups undo the steps of New, the last one first.
	cleanups []func()
	closing  sync.Once
}

// New joins the edge to the bus and returns once it knows the services there. Close it
// before the connection.
func New(ctx context.Context, conn *bus.Conn, cfg Config) (_ *Edge, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Limiter == nil {
		cfg.Limiter = gateway.NewInFlight(gateway.DefaultInFlight)
	}
	e := &Edge{cfg: cfg, conn: conn, looks: make(chan struct{}, maxLooks), connections: door.NewConnections(cfg.Logger)}
	e.metrics = metrics.New(cfg.Version, e.checks)
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.storage, err = storage.Ensure(ctx, conn, cfg.Replicas); err != nil {
		return nil, err
	}
	e.cleanup(e.storage.Keep())
	if e.caller, err = edges.NewCaller(conn); err != nil {
		return nil, err
	}
	e.cleanup(func() { _ = e.caller.Close() })
	if e.sessions, err = store.NewSessions(conn); err != nil {
		return nil, err
	}
	e.cleanup(e.sessions.Close)
	if e.live, err = catalogue.Open(ctx, conn, e.catalogue()); err != nil {
		return nil, err
	}
	e.cleanup(e.live.Close)
	if p := e.policy(); p != nil {
		e.cleanup(p.OnChange(func() { e.live.GrantsChanged(); e.live.ViewsChanged() }))
	}
	if err = e.takeKeys(); err != nil {
		return nil, err
	}
	tasks := task.OpenIn(conn, e.storage)
	if e.gateway, err = e.newGateway(ctx, tasks); err != nil {
		return nil, err
	}
	e.cleanup(e.gateway.Close)
	e.endTasks()
	e.cleanup(func() { e.connections.End(now()) })
	e.server, err = protocol.NewServer(protocol.Config{
		Info:    mcp.Implementation{Name: "busbar", Title: "Busbar", Version: cfg.Version},
		Gateway: e.gateway, Caller: e.caller, Tasks: tasks, Sessions: e.sessions, Streams: store.NewStreams(conn), Managed: e.oauth, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	e.cleanup(e.server.Close)
	e.api = api.New(e.gateway, e.server.Closing())
	e.live.OnRedefined(e.redefined)
	stop, err := e.caller.OnCancelElsewhere(e.server.Cancelled)
	if err != nil {
		return nil, err
	}
	e.cleanup(stop)
	if cfg.Guest {
		return e, nil
	}
	if e.services, err = service.Serve(ctx, conn, e.gateway); err != nil {
		return nil, err
	}
	e.cleanup(func() { _ = e.services.Drain(now()) })
	return e, nil
}

// newGateway makes the gateway's chain of links, with the stores on the bus that they
// use.
func (e *Edge) newGateway(ctx context.Context, tasks *task.Store) (*gateway.Gateway, error) {
	auditor, err := e.startAudit(ctx)
	if err != nil {
		return nil, err
	}
	cache, held := gateway.NewCache(), budget.New(e.cfg.ResultBytes)
	e.cleanup(cache.Close)
	e.measure(cache, held)
	limiter, err := e.startLimits(ctx)
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Config{
		Caller: e.caller, Catalogue: e.live, Tasks: tasks, Approvals: store.NewApprovals(e.conn), Cache: cache, Budget: held,
		Authenticator: e.bounded(), Client: e.cfg.Client, Access: e.cfg.Access, Limiter: limiter, Deduplicator: gateway.NewKeys(store.NewOutcomes(e.conn), e.caller, tasks),
		Tracer: e.cfg.Tracer, ListTools: e.cfg.ListTools,
		Auditor: e.metrics.Auditor(auditor), Sealer: store.NewSealer(store.SharedKeys(e.storage)), CheckResults: e.cfg.CheckResults, Logger: e.cfg.Logger,
	}), nil
}

// startAudit begins to record calls; nil if that is off.
func (e *Edge) startAudit(ctx context.Context) (gateway.Auditor, error) {
	if e.cfg.Audit.Off {
		return nil, nil
	}
	key, err := store.AuditKey(ctx, e.storage)
	if err != nil && len(e.storage.Away()) > 0 {
		e.cfg.Logger.Warn("the key of the audit trail's digests cannot be read: until this edge is restarted, its digests compare with no other edge's", "error", err)
		key, err = store.NewKey(), nil
	}
	if err != nil {
		return nil, err
	}
	e.cleanup(e.askAudit())
	e.trail, err = audit.New(e.conn, audit.Config{
		Edge: e.caller.Edge(), Key: key, SpoolDir: e.cfg.Audit.SpoolDir, Logger: e.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	e.cleanup(e.trail.Close)
	return e.trail, nil
}

// startLimits joins the edges that share limits, if there are limits.
func (e *Edge) startLimits(ctx context.Context) (gateway.Limiter, error) {
	if e.cfg.Limits == nil {
		return e.cfg.Limiter, nil
	}
	l := limit.New(ctx, limit.Config{
		Rules: e.cfg.Limits, Next: e.cfg.Limiter, Edge: e.caller.Edge(), Guest: e.cfg.Guest,
		Store: e.conn.Bucket(bus.LimitsBucket), Peers: e.caller, Logger: e.cfg.Logger,
	})
	e.limits = l
	e.cleanup(l.Close)
	stop, err := e.caller.OnBorrow(l.Lend)
	if err != nil {
		return nil, err
	}
	e.cleanup(stop)
	return l, nil
}

// Server answers MCP messages, for doors other than HTTP.
func (e *Edge) Server() *protocol.Server { return e.server }

// Await returns when every service named is on the bus and answers a call. A service that
// was there a moment ago is waited for as well: its process ended, and another one takes
// over.
func (e *Edge) Await(ctx context.Context, services ...string) error {
	for {
		if err := e.live.Await(ctx, services...); err != nil {
			return fmt.Errorf("wait for services %v: %w", services, err)
		}
		name, err := e.mute(ctx, services)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done(): // the cause, whatever error the bus returned for it
			return fmt.Errorf("check service %s: %w (%w)", name, context.Cause(ctx), err)
		}
	}
}

// awaitPause is the time between two checks of services that were there and do not
// answer.
const awaitPause = 50 * time.Millisecond

// mute is the first of these services that does not answer, and why.
func (e *Edge) mute(ctx context.Context, services []string) (string, error) {
	for _, name := range services {
		if err := e.caller.Check(ctx, name); err != nil {
			return name, err
		}
	}
	return "", nil
}

// Close leaves the bus. Calls in flight fail; see Serve for an orderly end.
// Closing again does nothing.
func (e *Edge) Close() {
	e.closing.Do(func() {
		for _, f := range slices.Backward(e.cleanups) {
			f()
		}
	})
}

// cleanup makes f run when the edge closes, before the earlier cleanups.
func (e *Edge) cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

// now is a context that is over, for work that has to end without waiting.
func now() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
