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
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/libs/problem"
	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/door/envelope"
	"github.com/busbar-mcp/busbar/services/edge/door/graphql"
	"github.com/busbar-mcp/busbar/services/edge/door/grpc"
	"github.com/busbar-mcp/busbar/services/edge/door/rest"
	"github.com/busbar-mcp/busbar/services/edge/door/sse"
	"github.com/busbar-mcp/busbar/services/edge/door/streamable"
	"github.com/busbar-mcp/busbar/services/edge/door/trail"
	"github.com/busbar-mcp/busbar/services/edge/door/websocket"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/identity"
)

// Handler is the edge's HTTP interface. It serves /mcp, /sse with /messages, the paths of
// rest.Roots, /v1, /graphql and /ws; /mcp, /v1, /graphql and /ws with the name of a
// toolset after them; /audit/, /access/limits, /healthz and /readyz; and for clients that
// log in, identity.MetadataPath.
func (e *Edge) Handler(guard door.Guard) http.Handler {
	mux := http.NewServeMux()
	doors := map[string]http.Handler{
		"/mcp":        streamable.New(streamable.Config{Server: e.server, Gateway: e.gateway, Sessions: e.sessions, Connections: e.connections, Guard: guard}),
		envelope.Path: envelope.New(envelope.Config{API: e.api, Guard: guard}),
		graphql.Path: graphql.New(graphql.Config{
			API: e.api, Connections: e.connections, Closing: e.server.Closing(), Guard: guard, Logger: e.cfg.Logger,
		}),
		websocket.Path: websocket.New(websocket.Config{
			API: e.api, Server: e.server, Connections: e.connections, Guard: guard, Version: e.cfg.Version,
		}),
	}
	old := sse.New(sse.Config{Server: e.server, Gateway: e.gateway, Connections: e.connections, Guard: guard})
	doors[sse.StreamPath] = http.HandlerFunc(old.Stream)
	for path, serves := range doors {
		mux.Handle(path, serves)
		mux.Handle(door.ThroughToolset(path), serves)
	}
	mux.HandleFunc(sse.MessagesPath, old.Messages)
	mux.Handle(trail.Path, trail.New(trail.Config{Gateway: e.gateway, Guard: guard, Token: e.cfg.Audit.Token, Dead: auditlog.DeadOf(e.conn)}))
	mux.HandleFunc("GET "+limitsPath, e.limitsLeft(guard))
	web := rest.New(rest.Config{API: e.api, Guard: guard, Version: e.cfg.Version})
	mux.HandleFunc("GET "+probe.HealthPath, probe.Health)
	mux.HandleFunc("GET "+probe.ReadyPath, e.metrics.Ready)
	if a := e.identity(); a != nil {
		mux.Handle(identity.MetadataPath, a)
		mux.Handle(identity.MetadataPath+"/", a)
	}
	problem.Refuse(mux, forms.WayOn(fault.MethodNotFound).HTTP)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, release := e.gateway.Track(r.Context())
		defer release()
		r = r.WithContext(ctx)
		if e.refused(ctx, w, r) {
			return
		}
		// Not through the mux, which cleans paths: the URI of a resource is part of one.
		if root, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/"); slices.Contains(rest.Roots, root) && r.URL.Path != limitsPath {
			web.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// MetricsHandler serves the edge's metrics to anybody: mount it where clients and proxies
// cannot reach it.
func (e *Edge) MetricsHandler() http.Handler { return e.metrics.Metrics() }

// ServeAll is Serve for all listeners. It closes them.
func (e *Edge) ServeAll(ctx context.Context, l *Listeners) error {
	if e.tls = l.TLS; e.tls != nil {
		e.metrics.Gauge("busbar_tls_certificate_expires_seconds", "When the certificate in use expires, in seconds since 1970.", func() float64 { return float64(e.tls.Expires().Unix()) })
	}
	p := pool.New().WithErrors().WithContext(ctx).WithCancelOnError()
	p.Go(func(ctx context.Context) error {
		lingering, end := e.leaving.linger(ctx, l.LeaveTime)
		defer end()
		return e.Serve(lingering, l.http())
	})
	if l.GRPC != nil {
		s := grpc.New(grpc.Config{
			API: e.api, Logger: e.cfg.Logger, Reflection: isLoopback(l.GRPC),
		})
		e.metrics.Gauge("busbar_grpc_streams", "gRPC streams, with those whose client has not read its answer yet.", func() float64 { return float64(s.Streams()) })
		p.Go(func(ctx context.Context) error { return s.Serve(ctx, l.grpc(), drainTime) })
	}
	if l.Metrics != nil {
		p.Go(func(ctx context.Context) error {
			return e.metrics.Serve(ctx, l.metrics(), e.readsMetrics(l.MetricsToken, isLoopback(l.Metrics)))
		})
	}
	return p.Wait()
}

// readsMetrics decides whether the bearer of a token may read the metrics. It is nil if
// everybody may: on a loopback listener of an edge that authenticates nobody and has no
// token for them.
func (e *Edge) readsMetrics(own token.Token, local bool) func(string) bool {
	if own == "" && local && !e.authenticates() {
		return nil
	}
	return func(shown string) bool { return own.Admits(shown) || e.cfg.Audit.Token.Admits(shown) }
}

// drainTime bounds how long a stopping Serve waits for calls in flight.
//
//limit:process calls in flight after an edge is told to stop | they are cancelled
const drainTime = 35 * time.Second

// idleTime is how long a connection is kept between requests, and before the first one.
// It is longer than the time for which proxies reuse a connection (nginx and AWS 60 s, Go
// 90 s, Google 600 s): a request that meets the end of its connection fails, and the
// proxy may not repeat it.
//
//limit:process a connection between requests | it is closed
const idleTime = 620 * time.Second

// Serve serves HTTP on l until ctx ends, then closes the listener, finishes the calls in
// flight, and returns. It closes l. It speaks HTTP/2 on TLS connections that have agreed
// on it.
func (e *Edge) Serve(ctx context.Context, l net.Listener) error {
	guard := e.cfg.Guard
	guard.Loopback = guard.Loopback || isLoopback(l)
	srv := &http.Server{
		Handler:           unambiguous(overHTTP2(e.leaving.parting(e.Handler(guard)))),
		ConnContext:       connContext,
		ReadHeaderTimeout: 5 * time.Second,
		// For short answers; the door sets a deadline for each write of long ones.
		WriteTimeout:   10 * time.Second,
		IdleTimeout:    idleTime,
		MaxHeaderBytes: 16 << 10,
		HTTP2:          http2Limits(),
		ErrorLog:       slog.NewLogLogger(e.cfg.Logger.Handler(), slog.LevelDebug),
	}
	srv.RegisterOnShutdown(e.server.Close)
	unused := &unusedConns{most: maxUnused, from: map[string][]net.Conn{}}
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
	e.connections.End(drain)
	if e.services != nil {
		err = errors.Join(err, e.services.Drain(drain))
	}
	return err
}
