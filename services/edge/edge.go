// Package edge is the service that clients talk to: front doors, the gateway
// that every call passes, and the bus behind it. Any number of edges serve the
// same clients; none holds state that another could not pick up.
package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/envelope"
	"github.com/busbar-mcp/busbar/services/edge/door/graphql"
	"github.com/busbar-mcp/busbar/services/edge/door/grpc"
	"github.com/busbar-mcp/busbar/services/edge/door/inner"
	"github.com/busbar-mcp/busbar/services/edge/door/rest"
	"github.com/busbar-mcp/busbar/services/edge/door/sse"
	"github.com/busbar-mcp/busbar/services/edge/door/streamable"
	"github.com/busbar-mcp/busbar/services/edge/door/websocket"
	"github.com/busbar-mcp/busbar/services/edge/era"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/metrics"
	"github.com/busbar-mcp/busbar/services/edge/operator"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Config says how an edge presents itself.
type Config struct {
	// Version is the edge's own SemVer.
	Version string
	// Guard of the HTTP doors. Loopback is set by Serve for a loopback listener.
	Guard door.Guard
	// Authenticator tells who calls; nil: everybody is gateway.Anonymous.
	Authenticator gateway.Authenticator
	// Authorizer says who may call what; nil: everybody everything.
	Authorizer gateway.Authorizer
	// Limiter admits calls; nil: gateway.DefaultInFlight at once.
	Limiter gateway.Limiter
	// Guest leaves the calls that tools make to the other edges of the bus. An edge
	// that comes and goes with one client would end those of others when it goes.
	Guest bool
	// ResultBytes bounds the results that the edge holds for clients who have not
	// read them yet; 0: budget.DefaultLimit.
	ResultBytes int64
	Audit       Audit
	// CheckResults logs where a tool's result is not what its output schema says.
	// It is for development and tests: each result is read once more.
	CheckResults bool
	Logger       *slog.Logger
}

// Audit says how calls are recorded.
type Audit struct {
	// Off records nothing.
	Off bool
	// SpoolDir: see audit.Config. Authorize and Token: see audit.Reader.
	SpoolDir  string
	Authorize func(*http.Request) (audit.Access, error)
	Token     operator.Token
}

// Edge is a connected edge: everything but its listeners.
type Edge struct {
	cfg      Config
	conn     *bus.Conn
	storage  *storage.Storage
	caller   *edges.Caller
	live     *catalogue.Live
	sessions *session.OnBus
	cache    *gateway.Cache
	gateway  *gateway.Gateway
	trail    *audit.Trail // nil for none
	server   *era.Server
	api      *api.Server
	sockets  *door.Sockets
	inner    *bus.Server
	metrics  *metrics.Metrics

	stopCancels func()
	stopKeeping func()
	closing     sync.Once
}

// New joins the edge to the bus and returns once it knows what is there. Close
// it before the connection.
func New(ctx context.Context, conn *bus.Conn, cfg Config) (_ *Edge, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	e := &Edge{cfg: cfg, conn: conn, sockets: door.NewSockets()}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if e.storage, err = storage.Ensure(ctx, conn); err != nil {
		return nil, err
	}
	e.stopKeeping = e.storage.Keep()
	if e.caller, err = edges.NewCaller(conn); err != nil {
		return nil, err
	}
	if e.sessions, err = session.NewOnBus(ctx, conn); err != nil {
		return nil, err
	}
	if e.live, err = catalogue.Watch(ctx, conn, cfg.Logger); err != nil {
		return nil, err
	}
	streams, err := session.NewStreams(ctx, conn)
	if err != nil {
		return nil, err
	}
	sealer := sharedSealer(e.storage)
	tasks := task.Open(conn)
	approvals, err := gateway.NewApprovals(ctx, conn)
	if err != nil {
		return nil, err
	}
	outcomes, err := gateway.NewOutcomes(ctx, conn, e.caller, tasks)
	if err != nil {
		return nil, err
	}
	auditor, err := e.startAudit(ctx)
	if err != nil {
		return nil, err
	}
	e.cache = gateway.NewCache()
	if cfg.Limiter == nil {
		cfg.Limiter = gateway.NewInFlight(gateway.DefaultInFlight)
	}
	e.metrics = metrics.New(cfg.Version)
	held := budget.New(cfg.ResultBytes)
	e.metrics.Gauge("busbar_results_held_bytes", "Results that clients have not read yet.", func() float64 { return float64(held.Held()) })
	e.measure(cfg.Limiter)
	e.gateway = gateway.New(gateway.Config{
		Caller: e.caller, Catalogue: e.live, Tasks: tasks, Approvals: approvals, Cache: e.cache, Budget: held,
		Authenticator: cfg.Authenticator, Authorizer: cfg.Authorizer, Limiter: cfg.Limiter, Deduplicator: outcomes,
		Auditor: e.metrics.Auditor(auditor), Sealer: sealer, CheckResults: cfg.CheckResults, Logger: cfg.Logger,
	})
	e.server, err = era.NewServer(era.Config{
		Info:    mcp.Implementation{Name: "busbar", Title: "Busbar", Version: cfg.Version},
		Gateway: e.gateway, Sessions: e.sessions, Streams: streams, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	e.api = api.New(e.gateway, e.server.Closing())
	if e.stopCancels, err = e.caller.OnCancelElsewhere(e.server.Cancelled); err != nil {
		return nil, err
	}
	if cfg.Guest {
		return e, nil
	}
	if e.inner, err = inner.Serve(ctx, conn, e.gateway); err != nil {
		return nil, err
	}
	return e, nil
}

// sharedSealer seals with keys that all edges of the bus have, so that a client
// may come back to any of them. The first edge that needs a period's key makes
// it; the bucket forgets it when it is of no more use.
func sharedSealer(st *storage.Storage) *gateway.Sealer {
	return gateway.NewSealer(func(ctx context.Context, period uint32) ([]byte, error) {
		return st.Shared(ctx, bus.KeysBucket, fmt.Sprintf("request-state.%d", period), gateway.NewKey())
	})
}

// measure has the figures of an edge's parts among its metrics.
func (e *Edge) measure(limiter gateway.Limiter) {
	m := e.metrics
	if l, ok := limiter.(*gateway.InFlight); ok {
		m.Gauge("busbar_calls_in_flight", "Calls that this edge carries now.", func() float64 { return float64(l.Now()) })
	}
	m.Gauge("busbar_bus_connected", "1 while the bus is reachable.", func() float64 {
		if e.conn.Connected() {
			return 1
		}
		return 0
	})
	m.Gauge("busbar_clock_offset_seconds", "How far the clock of this edge is ahead of most of the bus.", func() float64 {
		off, _ := e.live.ClockOffset()
		return off.Seconds()
	})
	m.Counter("busbar_malformed_answers_total", "What services said that is not of the protocol, such as results that are no JSON objects.", func() float64 {
		return float64(e.conn.Malformed())
	})
	m.Gauge("busbar_services", "Services on the bus.", func() float64 { return float64(len(e.live.Services())) })
	m.Gauge("busbar_catalogue_problems", "Things in the services' catalogues that are not served, such as a name that two have.", func() float64 {
		return float64(len(e.live.Now().Problems()))
	})
	m.Gauge("busbar_catalogue_mended", "Places in the schemas of tools that were true or false, which clients do not take.", func() float64 {
		return float64(len(e.live.Now().Mended()))
	})
	m.Gauge("busbar_catalogue_conflicts", "Names that a service offers and another one has.", func() float64 {
		return float64(len(e.live.Now().Conflicts()))
	})
	m.Gauge("busbar_bus_storage_away", "Buckets and streams of the bus that do not answer.", func() float64 { return float64(len(e.storage.Away())) })
	m.Counter("busbar_cache_hits_total", "Calls answered from kept results.", func() float64 { hits, _ := e.cache.Counts(); return float64(hits) })
	m.Counter("busbar_cache_misses_total", "Calls that might have been, and were not.", func() float64 { _, misses := e.cache.Counts(); return float64(misses) })
	m.Gauge("busbar_cache_bytes", "Size of the kept results.", func() float64 { return float64(e.cache.Size()) })
	if e.trail == nil {
		return
	}
	m.Gauge("busbar_audit_stream_bytes", "Size of the audit events on the bus that are not written down yet.", func() float64 { return float64(e.trail.Stats().Stream.Bytes) })
	m.Gauge("busbar_audit_stream_limit_bytes", "Size at which the bus takes no more audit events. Calls with effects are refused from 90 % of it.", func() float64 { return float64(e.trail.Stats().Stream.Limit) })
	m.Gauge("busbar_audit_stream_pending", "Messages with audit events on the bus that are not written down yet.", func() float64 { return float64(e.trail.Stats().Stream.Messages) })
	m.Gauge("busbar_audit_queued_events", "Audit events that wait in memory.", func() float64 { return float64(e.trail.Stats().Queued) })
	m.Gauge("busbar_audit_spooled_bytes", "Audit events that wait on disk, while the bus does not take them.", func() float64 { return float64(e.trail.Stats().Spooled) })
	m.Counter("busbar_audit_dropped_events_total", "Audit events that are lost.", func() float64 { return float64(e.trail.Stats().Dropped) })
}

// startAudit begins to record calls; nil when that is off.
func (e *Edge) startAudit(ctx context.Context) (gateway.Auditor, error) {
	if e.cfg.Audit.Off {
		return nil, nil
	}
	key, err := e.storage.Shared(ctx, bus.AuditBucket, "digests", gateway.NewKey())
	if err != nil && len(e.storage.Away()) > 0 {
		e.cfg.Logger.Warn("the key of the audit trail's digests cannot be read: until this edge is restarted, its digests compare with no other edge's", "error", err)
		key, err = gateway.NewKey(), nil
	}
	if err != nil {
		return nil, err
	}
	e.trail, err = audit.New(e.conn, audit.Config{
		Edge: e.caller.Edge(), Key: key, SpoolDir: e.cfg.Audit.SpoolDir, Logger: e.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return e.trail, nil
}

// Server answers MCP messages, for doors other than HTTP.
func (e *Edge) Server() *era.Server { return e.server }

// Await returns when every service named is on the bus and answers a call.
func (e *Edge) Await(ctx context.Context, services ...string) error {
	if err := e.live.Await(ctx, services...); err != nil {
		return fmt.Errorf("wait for services %v: %w", services, err)
	}
	for _, name := range services {
		if err := e.caller.Check(ctx, name); err != nil {
			return fmt.Errorf("check service %s: %w", name, err)
		}
	}
	return nil
}

// Close leaves the bus. Calls in flight fail; see Serve for an orderly end.
// Closing again does nothing.
func (e *Edge) Close() { e.closing.Do(e.close) }

func (e *Edge) close() {
	if e.server != nil {
		e.server.Close()
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	e.sockets.End(now)
	if e.inner != nil {
		_ = e.inner.Drain(now)
	}
	if e.stopCancels != nil {
		e.stopCancels()
	}
	if e.stopKeeping != nil {
		e.stopKeeping()
	}
	if e.trail != nil {
		e.trail.Close()
	}
	if e.live != nil {
		e.live.Close()
	}
	if e.sessions != nil {
		e.sessions.Close()
	}
	if e.caller != nil {
		_ = e.caller.Close()
	}
	if e.cache != nil {
		e.cache.Close()
	}
}

// Handler is the edge's HTTP interface: /mcp, /sse with /messages, the paths of
// rest.Roots, /v1, /graphql, /ws, /audit/, /healthz and /readyz.
func (e *Edge) Handler(guard door.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", streamable.New(streamable.Config{
		Server: e.server, Gateway: e.gateway, Sessions: e.sessions, Guard: guard,
	}))
	old := sse.New(sse.Config{Server: e.server, Gateway: e.gateway, Guard: guard})
	mux.HandleFunc(sse.StreamPath, old.Stream)
	mux.HandleFunc(sse.MessagesPath, old.Messages)
	reader := &audit.Reader{Caller: e.caller.Caller, Guard: guard, Authorize: e.cfg.Audit.Authorize, Token: e.cfg.Audit.Token}
	if e.trail != nil {
		reader.Record = e.trail.Record
	}
	mux.Handle("/audit/", reader)
	mux.Handle(envelope.Path, envelope.New(envelope.Config{API: e.api, Guard: guard}))
	mux.Handle(graphql.Path, graphql.New(graphql.Config{
		API: e.api, Sockets: e.sockets, Closing: e.server.Closing(), Guard: guard, Logger: e.cfg.Logger,
	}))
	mux.Handle(websocket.Path, websocket.New(websocket.Config{
		API: e.api, Server: e.server, Sockets: e.sockets, Guard: guard, Version: e.cfg.Version,
	}))
	web := rest.New(rest.Config{API: e.api, Guard: guard})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", e.ready)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, release := e.gateway.Hold(r.Context())
		defer release()
		r = r.WithContext(ctx)
		// Not through the mux, which tidies paths: a resource's URI is part of one.
		if root, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/"); slices.Contains(rest.Roots, root) {
			web.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// MetricsHandler serves the edge's figures to anybody: put it where clients and
// proxies do not come.
func (e *Edge) MetricsHandler() http.Handler { return e.metrics.Handler() }

// ServeAll is Serve for every listener there is. It closes them.
func (e *Edge) ServeAll(ctx context.Context, l *Listeners) error {
	p := pool.New().WithErrors().WithContext(ctx).WithCancelOnError()
	p.Go(func(ctx context.Context) error { return e.Serve(ctx, l.HTTP) })
	if l.GRPC != nil {
		s := grpc.New(grpc.Config{
			API: e.api, Logger: e.cfg.Logger, Reflection: isLoopback(l.GRPC),
		})
		e.metrics.Gauge("busbar_grpc_streams", "gRPC streams, with those whose client has not read its answer yet.", func() float64 { return float64(s.Streams()) })
		p.Go(func(ctx context.Context) error { return s.Serve(ctx, l.GRPC, drainTime) })
	}
	if l.Metrics != nil {
		p.Go(func(ctx context.Context) error { return e.metrics.Serve(ctx, l.Metrics) })
	}
	return p.Wait()
}

// drainTime bounds how long Serve waits for calls in flight at its end.
const drainTime = 35 * time.Second

// Serve serves HTTP on l until ctx ends, then closes the listener, finishes
// the calls in flight, and returns. It closes l.
func (e *Edge) Serve(ctx context.Context, l net.Listener) error {
	guard := e.cfg.Guard
	guard.Loopback = guard.Loopback || isLoopback(l)
	srv := &http.Server{
		Handler:           unambiguous(e.Handler(guard)),
		ConnContext:       framedContext,
		ReadHeaderTimeout: 5 * time.Second,
		// Of short answers; the door sets its own for each write of long ones.
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    120 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(e.cfg.Logger.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(e.server.Close)
	unused := &unusedConns{conns: map[net.Conn]struct{}{}}
	srv.ConnState = unused.note
	srv.RegisterOnShutdown(unused.close)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(framed{l}) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(drain)
	if err != nil {
		err = errors.Join(fmt.Errorf("some requests did not finish in %v: %w", drainTime, err), srv.Close())
	}
	<-ended
	e.sockets.End(drain)
	if e.inner != nil {
		err = errors.Join(err, e.inner.Drain(drain))
	}
	return err
}

// unusedConns are the connections that have not brought a request yet. Clients
// open some ahead of need, and Shutdown would wait five seconds for each.
type unusedConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (u *unusedConns) note(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case s != http.StateNew:
		delete(u.conns, c)
	case u.closed:
		_ = c.Close()
	default:
		u.conns[c] = struct{}{}
	}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for c := range u.conns {
		_ = c.Close()
	}
}
