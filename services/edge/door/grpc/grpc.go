// Package grpc is the door of gRPC: the service of proto/busbar/gateway/v1, with
// health and, in development, reflection.
package grpc

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"

	"github.com/sourcegraph/conc/panics"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// Limits of the door.
const (
	// maxMessage bounds what a client sends; results may be larger.
	maxMessage = 1 << 20
	maxResult  = 17 << 20
	// maxStreams bounds the calls of one connection.
	maxStreams = 100
	maxHeaders = 16 << 10
	// maxPage is the most entries of a list, defaultPage how many there are unless
	// the client says.
	maxPage, defaultPage = 1000, 250
)

// Config says what the door stands before.
type Config struct {
	API    *api.Server
	Logger *slog.Logger
	// Reflection lets any client ask what the services are; for development.
	Reflection bool
}

// Server serves gRPC.
type Server struct {
	server *rpc.Server
	health *health.Server
}

// New makes the door.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{health: health.NewServer()}
	guard := recoverer{cfg.Logger, cfg.API}
	s.server = rpc.NewServer(
		rpc.MaxRecvMsgSize(maxMessage), rpc.MaxSendMsgSize(maxResult), rpc.MaxConcurrentStreams(maxStreams),
		rpc.MaxHeaderListSize(maxHeaders), rpc.ConnectionTimeout(5*time.Second),
		rpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		rpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		rpc.UnaryInterceptor(guard.unary), rpc.StreamInterceptor(guard.stream),
	)
	gatewayv1.RegisterGatewayServiceServer(s.server, &service{api: cfg.API})
	healthv1.RegisterHealthServer(s.server, s.health)
	if cfg.Reflection {
		reflection.Register(s.server)
	}
	return s
}

// Serve serves on l until ctx ends, then finishes what runs, for at most drain,
// and returns. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.health.Shutdown()
	late := time.AfterFunc(drain, s.server.Stop)
	defer late.Stop()
	s.server.GracefulStop()
	return <-ended
}

// recoverer keeps a defect that one call meets from ending the process.
type recoverer struct {
	log *slog.Logger
	api *api.Server
}

func (g recoverer) unary(ctx context.Context, req any, info *rpc.UnaryServerInfo, handle rpc.UnaryHandler) (resp any, err error) {
	ctx, release := g.api.Hold(ctx)
	defer release()
	if caught := panics.Try(func() { resp, err = handle(ctx, req) }); caught != nil {
		return nil, g.met(info.FullMethod, caught)
	}
	return resp, status(err)
}

func (g recoverer) stream(srv any, s rpc.ServerStream, info *rpc.StreamServerInfo, handle rpc.StreamHandler) (err error) {
	ctx, release := g.api.HoldAny(s.Context())
	defer release()
	if caught := panics.Try(func() { err = handle(srv, &held{s, ctx}) }); caught != nil {
		return g.met(info.FullMethod, caught)
	}
	return status(err)
}

// held is a stream whose results have an account.
type held struct {
	rpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (h *held) Context() context.Context { return h.ctx }

func (g recoverer) met(method string, caught *panics.Recovered) error {
	g.log.Error("a call panicked", "door", "grpc", "method", method, "panic", caught.Value, "stack", string(caught.Stack))
	return status(fault.New(fault.Internal, "internal error"))
}

// caller is who makes a call, by its metadata.
func caller(ctx context.Context, key string) (api.Caller, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string {
		if v := md.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	c := api.Caller{Door: "grpc", IdempotencyKey: key, Traceparent: first("traceparent"), Tracestate: first("tracestate")}
	if p, ok := peer.FromContext(ctx); ok {
		c.Credentials.Address = p.Addr.String()
		if host, _, err := net.SplitHostPort(c.Credentials.Address); err == nil {
			c.Credentials.Address = host
		}
	}
	const scheme = "bearer "
	switch v := md.Get("authorization"); {
	case len(v) > 1:
		return c, fault.New(fault.InvalidRequest, "metadata authorization stands twice")
	case len(v) == 1 && len(v[0]) > len(scheme) && strings.EqualFold(v[0][:len(scheme)], scheme):
		c.Credentials.Bearer = strings.TrimSpace(v[0][len(scheme):])
	}
	return c, nil
}

// object checks JSON that a client sends: an object, strictly; empty for none.
func object(what string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := mcp.Valid(b, mcp.DefaultLimits()); err != nil {
		return err
	}
	if jsontext.Value(b).Kind() != '{' {
		return fault.New(fault.InvalidParams, "%s must be a JSON object", what)
	}
	return nil
}
