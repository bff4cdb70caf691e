// Package grpc is the door of gRPC: the service of proto/busbar/gateway/v1, with health
// and, in development, reflection.
//
// Start with service.go, which answers the calls. serve.go puts each stream on net/http,
// so that slow clients can be cut off.
package grpc

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"sync/atomic"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"github.com/sourcegraph/conc/panics"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Limits of the door.
const (
	// maxMessage bounds a client's message; results may be larger.
	//limit:message a message of gRPC | `RESOURCE_EXHAUSTED`
	maxMessage = 1 << 20
	maxResult  = 17 << 20
	// maxStreams bounds the calls of one connection.
	//limit:connection concurrent calls of a gRPC connection | more wait
	maxStreams = 100
	maxHeaders = 16 << 10
	// idleTime is how long a connection without a call is kept.
	//limit:process a gRPC connection without a call | it is closed
	idleTime = 5 * time.Minute
	// maxPage is the most entries of a list, defaultPage the number unless the client
	// sets it.
	maxPage, defaultPage = 1000, 250
)

// Config configures the door.
type Config struct {
	API    *api.Server
	Logger *slog.Logger
	// Reflection lets any client query the services' descriptions; for development.
	Reflection bool
}

// Server serves gRPC.
type Server struct {
	server  *rpc.Server
	health  *health.Server
	track   func(context.Context) (context.Context, func())
	errors  *log.Logger
	streams atomic.Int64
}

// New makes the door.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{health: health.NewServer(), track: cfg.API.TrackAny, errors: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)}
	guard := guard{cfg.API, cfg.Logger}
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

// guard finds the caller of each call, and keeps a defect in one call from ending the
// process.
type guard struct {
	api *api.Server
	log *slog.Logger
}

func (g guard) unary(ctx context.Context, req any, info *rpc.UnaryServerInfo, handle rpc.UnaryHandler) (resp any, err error) {
	header := func(md metadata.MD) error { return rpc.SetHeader(ctx, md) }
	admitted, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, refuse(header, err)
	}
	if caught := panics.Try(func() { resp, err = handle(admitted, req) }); caught != nil {
		return nil, g.met(info.FullMethod, caught)
	}
	if out, ok := resp.(proto.Message); ok && err == nil && wantsText(req) {
		writeText(out.ProtoReflect())
	}
	return resp, refuse(header, err)
}

func (g guard) stream(srv any, s rpc.ServerStream, info *rpc.StreamServerInfo, handle rpc.StreamHandler) error {
	ctx, err := g.admit(s.Context(), info.FullMethod)
	if err != nil {
		return refuse(s.SetHeader, err)
	}
	w, _ := ctx.Value(streamKey{}).(*wire)
	if caught := panics.Try(func() { err = handle(srv, &stream{ServerStream: s, wire: w, ctx: ctx}) }); caught != nil {
		return g.met(info.FullMethod, caught)
	}
	return refuse(s.SetHeader, err)
}

// refuse is the status of an error, nil for nil. It puts the challenge for better
// credentials into the header that HTTP has for it, which must not be a trailer.
func refuse(header func(metadata.MD) error, err error) error {
	var c gateway.Challenge
	if errors.As(err, &c) {
		_ = header(metadata.MD{"www-authenticate": c}) // too late in a stream that has begun
	}
	return status(err)
}

// stream is a stream whose messages are written when SendMsg returns, and are read only
// when RecvMsg asks for them.
type stream struct {
	rpc.ServerStream
	*wire
	ctx context.Context
	// text is set if the first message asked for answers with JSON as text.
	read, text atomic.Bool
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *stream) SendMsg(m any) error {
	if out, ok := m.(proto.Message); ok && s.text.Load() {
		writeText(out.ProtoReflect())
	}
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
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !s.read.Swap(true) {
		s.text.Store(wantsText(m))
	}
	return nil
}

func (g guard) met(method string, caught *panics.Recovered) error {
	g.log.Error("a call panicked", "door", "grpc", "method", method, "panic", caught.Value, "stack", string(caught.Stack))
	return status(fault.New(fault.Internal, "internal error"))
}
