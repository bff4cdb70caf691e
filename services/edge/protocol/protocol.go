// Package protocol speaks MCP to clients of both eras: the stateless one of
// 2026-07-28, and the one of handshakes and sessions before it. It turns a
// JSON-RPC message into a call through the gateway, or into an answer the edge
// gives itself, and knows nothing of how messages travel: that is the doors'.
//
// methods.go has the protocol: which function answers which method in which
// era. What a function returns is written in wire.go.
package protocol

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Sender is where messages go to a client.
type Sender interface {
	// Send sends a message. It may wait for a slow client, but not forever, and
	// reports false when the client does not get it: it is gone, or takes nothing
	// ahead of a response.
	Send(message []byte) bool
	// Notify sends a notification, or drops what the client is too slow for. It
	// must not block for long.
	Notify(message []byte)
}

// Responder is where a door puts the answer to one message.
type Responder interface {
	// Sender takes what goes ahead of the response.
	Sender
	// Respond sends the response and ends the exchange. status is that of HTTP;
	// refused is why the response is an error, nil for a result.
	Respond(status int, message []byte, refused error)
}

// Lasting is a Responder whose door does not keep a handler for a request that lasts.
type Lasting interface {
	Responder
	// Last has rest go on, with a Responder that takes this one's place.
	Last(rest func(out Responder))
}

// Request is one message with what its door knows about it.
type Request struct {
	Message *mcp.Message
	// Door names the door.
	Door string
	// Version is the protocol version the message is under, a supported one.
	Version string
	// Session is a legacy client's; nil before initialize, or where the
	// transport has none.
	Session *store.Session
	// InFlight are the requests of the client's connection or session, in which
	// request ids are unique; nil where each request stands alone.
	InFlight *InFlight
	// Resumable is the request's responder where its client can come back for the
	// answer; nil elsewhere.
	Resumable Resumable
	// Credentials are what the door found.
	Credentials gateway.Credentials
	// Traceparent and Tracestate are those of headers of the request's own, for a message
	// that has none of its own.
	Traceparent, Tracestate string

	// connection is the client's where that is its session; nil elsewhere.
	connection *Connection
	// end takes the request out of flight, release gives back the room of its
	// results; nil for nothing to do.
	end, release func()
}

// Modern reports whether the message is of the stateless era.
func (r *Request) Modern() bool { return r.Version == mcp.Modern }

// Config says what a server tells clients about itself.
type Config struct {
	Info    mcp.Implementation
	Gateway *gateway.Gateway
	// Caller keeps the streams that clients come back for, and takes to other edges what is for them.
	Caller *edges.Caller
	// Tasks says when a task changes. What a client may know of one, the gateway finds out.
	Tasks    *task.Store
	Sessions *store.Sessions
	Streams  *store.Streams
	// Managed reports whether an identity provider gives out the clients' tokens; nil
	// is never.
	Managed func() bool
	Logger  *slog.Logger
}

// Server answers messages of both eras.
type Server struct {
	gateway  *gateway.Gateway
	caller   *edges.Caller
	tasks    *task.Store
	sessions *store.Sessions
	streams  *store.Streams
	log      *slog.Logger
	// Parts of messages: the server's name alone and as a member of _meta, the
	// result of server/discover, and capabilities.
	info, infoMeta, discovery, discoveryManaged, caps []byte

	managed func() bool

	closing   chan struct{}
	closeOnce sync.Once
	clients   clientCache
	inFlight  bySession
	// kept counts the answers that clients may come back for.
	kept *quota.Quota
}

// NewServer makes a server.
func NewServer(cfg Config) (*Server, error) {
	info, err := json.Marshal(cfg.Info)
	if err != nil {
		return nil, err
	}
	s := &Server{
		gateway: cfg.Gateway, caller: cfg.Caller, tasks: cfg.Tasks, sessions: cfg.Sessions, streams: cfg.Streams, log: cfg.Logger,
		info: info, closing: make(chan struct{}), inFlight: bySession{open: map[string]*shared{}},
		kept:     quota.New("answers", maxKeptAnswers, maxKeptBytes),
		infoMeta: []byte(`"` + mcp.MetaServerInfo + `":` + string(info)),
		// What the edge serves does not depend on which services are there now:
		// a list may be empty, and may fill.
		caps: []byte(`{"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`),
	}
	versions, err := json.Marshal(mcp.Supported())
	if err != nil {
		return nil, err
	}
	discovery := func(more string) []byte {
		extensions := `"extensions":{"` + mcp.ExtensionSkills + `":{"directoryRead":true},"` + mcp.ExtensionTasks + `":{}` + more + `},`
		return []byte(`{"supportedVersions":` + string(versions) + `,"capabilities":{` + extensions + string(inner(s.caps)) + `}` + `}`)
	}
	s.discovery, s.discoveryManaged = discovery(""), discovery(`,"`+mcp.ExtensionEnterprise+`":{}`)
	if s.managed = cfg.Managed; s.managed == nil {
		s.managed = func() bool { return false }
	}
	return s, nil
}

// about is the result of server/discover.
func (s *Server) about(now *catalogue.Snapshot) []byte {
	whole := s.discovery
	if s.managed() {
		whole = s.discoveryManaged
	}
	if now.Instructions() == "" {
		return whole
	}
	return append(appendInstructions(slices.Clone(whole[:len(whole)-1]), now), '}')
}

// appendInstructions adds the member of what services tell the caller's model.
func appendInstructions(b []byte, now *catalogue.Snapshot) []byte {
	if text := now.Instructions(); text != "" {
		b = appendQuoted(append(b, `,"instructions":`...), text)
	}
	return b
}

// Lease keeps a connection open for somebody; see gateway.Lease.
func (s *Server) Lease(ctx context.Context, door string, c gateway.Credentials) (*gateway.Lease, error) {
	return s.gateway.Lease(ctx, door, c)
}

// Close ends open streams gracefully.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// Closing is closed when open streams are to end.
func (s *Server) Closing() <-chan struct{} { return s.closing }

// Handle answers one message. It returns when the exchange is over.
func (s *Server) Handle(ctx context.Context, r *Request, out Responder) {
	if r.Message.Kind == mcp.Request && r.InFlight == nil {
		s.answer(ctx, r, out)
	} else if rest := s.Begin(ctx, r, out); rest != nil {
		rest()
	}
}

// Begin does of Handle what must happen in the order of the messages, so that
// a cancellation finds the request before it. It returns the rest, nil when
// there is none.
func (s *Server) Begin(ctx context.Context, r *Request, out Responder) (rest func()) {
	switch {
	case r.Message.Kind == mcp.Request:
		ctx, err := r.begin(ctx)
		if err != nil {
			s.Refuse(r, out, err)
			return nil
		}
		return func() { s.answer(ctx, r, out) }
	case r.Message.Kind == mcp.Response:
		s.answered(r)
	case r.Message.Method == mcp.NotifyCancelled:
		s.cancelled(r)
	}
	return nil
}

// answer carries a request out and sends its response.
func (s *Server) answer(ctx context.Context, r *Request, out Responder) {
	over := r.over
	defer func() { over() }()
	rep, err := s.do(ctx, r, out)
	door, lasting := out.(Lasting)
	switch {
	case rep.rest == nil:
		s.respond(ctx, r, out, rep, err)
	case lasting:
		over = func() {}
		door.Last(func(out Responder) {
			defer r.over()
			s.goOn(ctx, r, out, rep.rest)
		})
	default:
		s.goOn(ctx, r, out, rep.rest)
	}
}

// goOn carries out the rest of a request, and sends its response.
func (s *Server) goOn(ctx context.Context, r *Request, out Responder, rest func(Sender) (reply, error)) {
	rep, err := rest(out)
	s.respond(ctx, r, out, rep, err)
}

// respond sends the response to a request, as nothing else does but Refuse.
func (s *Server) respond(ctx context.Context, r *Request, out Responder, rep reply, err error) {
	if errors.Is(context.Cause(ctx), ErrCancelled) {
		return // no response is owed, and MCP forbids one from 2026-07-28 on
	}
	status, message := s.response(r, rep, err)
	r.land() // the client may use the id again as soon as it has the response
	if message != nil {
		out.Respond(status, message, err)
	}
	if err == nil && rep.written == nil { // others may still read what they wrote
		free(out, message)
	}
}

// Refuse answers a request with an error.
func (s *Server) Refuse(r *Request, out Responder, err error) {
	status, message := ErrorMessage(r.Message, r.Version, err)
	out.Respond(status, message, err)
}

// begin puts the request in flight. The error says that its id is in flight
// already.
func (r *Request) begin(ctx context.Context) (_ context.Context, err error) {
	if r.InFlight == nil {
		return ctx, nil
	}
	ctx, r.end, err = r.InFlight.begin(ctx, r.Message.ID)
	return ctx, err
}

// land takes the request out of flight, and ends its context.
func (r *Request) land() {
	if r.end != nil {
		r.end()
	}
}

// over is for when nothing more happens, response or not.
func (r *Request) over() {
	r.land()
	if r.release != nil {
		r.release()
	}
}

// hold opens an account for a request's results, until its response is sent,
// where its door has not: over a connection each request has its own.
func (s *Server) track(ctx context.Context, r *Request) context.Context {
	if budget.From(ctx) == nil {
		ctx, r.release = s.gateway.Track(ctx)
	}
	return ctx
}
