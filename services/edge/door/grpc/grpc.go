// Package grpc is the door of gRPC: the service of proto/busbar/gateway/v1, with
// health and, in development, reflection.
package grpc

import (
	"context"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
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
	// idleTime is how long a connection without a call is kept.
	idleTime = 5 * time.Minute
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
	server  *rpc.Server
	health  *health.Server
	hold    func(context.Context) (context.Context, func())
	errors  *log.Logger
	streams atomic.Int64
}

// New makes the door.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{health: health.NewServer(), hold: cfg.API.HoldAny, errors: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)}
	guard := recoverer{cfg.Logger}
	s.server = rpc.NewServer(
		rpc.MaxRecvMsgSize(maxMessage), rpc.MaxSendMsgSize(maxResult),
		rpc.UnaryInterceptor(guard.unary), rpc.StreamInterceptor(guard.stream),
	)
	gatewayv1.RegisterGatewayServiceServer(s.server, &service{api: cfg.API})
	healthv1.RegisterHealthServer(s.server, s.health)
	if cfg.Reflection {
		reflection.Register(s.server)
	}
	return s
}

// recoverer keeps a defect that one call meets from ending the process.
type recoverer struct{ log *slog.Logger }

func (g recoverer) unary(ctx context.Context, req any, info *rpc.UnaryServerInfo, handle rpc.UnaryHandler) (resp any, err error) {
	if caught := panics.Try(func() { resp, err = handle(ctx, req) }); caught != nil {
		return nil, g.met(info.FullMethod, caught)
	}
	return resp, status(err)
}

func (g recoverer) stream(srv any, s rpc.ServerStream, info *rpc.StreamServerInfo, handle rpc.StreamHandler) (err error) {
	w, _ := s.Context().Value(streamKey{}).(*wire)
	if caught := panics.Try(func() { err = handle(srv, &stream{s, w}) }); caught != nil {
		return g.met(info.FullMethod, caught)
	}
	return status(err)
}

// stream is a stream whose messages are written when SendMsg returns, and read as
// RecvMsg asks for them.
type stream struct {
	rpc.ServerStream
	*wire
}

// SendMsg implements grpc.ServerStream.
func (s *stream) SendMsg(m any) error {
	if err := s.ServerStream.SendMsg(m); err != nil {
		return err
	}
	select {
	case <-s.out.flushed:
		return nil
	case <-s.Context().Done():
		return status(fault.New(fault.Cancelled, "the client has gone or does not read"))
	}
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	s.in.allow()
	return s.ServerStream.RecvMsg(m)
}

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
		return c, fault.New(fault.InvalidRequest, "metadata authorization appears twice")
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
