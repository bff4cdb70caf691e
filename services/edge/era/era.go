// Package era speaks MCP to clients of both eras: the stateless one of
// 2026-07-28, and the one of handshakes and sessions before it. It turns a
// JSON-RPC message into a call through the gateway, or into an answer the edge
// gives itself, and knows nothing of how messages travel: that is the doors'.
package era

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Exchange is where a door puts the answer to one message.
type Exchange interface {
	// Notify sends a notification ahead of the response. It must not block for
	// long, and may drop what the client is too slow for.
	Notify(message []byte)
	// Ask sends a request of the server ahead of the response. It reports false
	// when this exchange cannot carry one.
	Ask(message []byte) bool
	// Respond sends the response and ends the exchange. status is that of HTTP.
	Respond(status int, message []byte)
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
	Session *session.Session
	// Peer is the client's connection or session, in which request ids are
	// unique; nil where each request stands alone.
	Peer *Peer
	// Resumable is the request's exchange where its client can come back for the
	// answer; nil elsewhere.
	Resumable Resumable
	// Credentials are what the door found.
	Credentials gateway.Credentials
}

// Modern reports whether the message is of the stateless era.
func (r *Request) Modern() bool { return r.Version == mcp.Modern }

// Config says what a server tells clients about itself.
type Config struct {
	Info         mcp.Implementation
	Instructions string
	Gateway      *gateway.Gateway
	Sessions     session.Store
	Streams      *session.Streams
	Logger       *slog.Logger
}

// Server answers messages of both eras.
type Server struct {
	gateway  *gateway.Gateway
	sessions session.Store
	streams  *session.Streams
	log      *slog.Logger
	info     []byte
	infoMeta []byte
	discover []byte
	caps     []byte
	extra    []byte

	closing   chan struct{}
	closeOnce sync.Once
	clients   clientCache
	peers     peers
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
		gateway: cfg.Gateway, sessions: cfg.Sessions, streams: cfg.Streams, log: cfg.Logger,
		info: info, closing: make(chan struct{}), peers: peers{open: map[string]*openPeer{}},
		kept:     quota.New("answers", maxKeptAnswers, maxKeptBytes),
		infoMeta: []byte(`"` + mcp.MetaServerInfo + `":` + string(info)),
		// What the edge serves does not depend on which services are there now:
		// a list may be empty, and may fill.
		caps: []byte(`{"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`),
	}
	if cfg.Instructions != "" {
		text, err := json.Marshal(cfg.Instructions)
		if err != nil {
			return nil, err
		}
		s.extra = append([]byte(`,"instructions":`), text...)
	}
	versions, err := json.Marshal(mcp.Supported())
	if err != nil {
		return nil, err
	}
	extensions := `"extensions":{"` + mcp.ExtensionSkills + `":{"directoryRead":true},"` + mcp.ExtensionTasks + `":{}},`
	s.discover = []byte(`{"supportedVersions":` + string(versions) + `,"capabilities":{` + extensions + string(inner(s.caps)) + `}` + string(s.extra) + `}`)
	return s, nil
}

// Close ends open streams gracefully.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// Closing is closed when open streams are to end.
func (s *Server) Closing() <-chan struct{} { return s.closing }

// Handle answers one message. It returns when the exchange is over.
func (s *Server) Handle(ctx context.Context, r *Request, x Exchange) {
	if r.Message.Kind == mcp.Request && r.Peer == nil {
		s.answerRequest(ctx, r, x)
	} else if rest := s.Begin(ctx, r, x); rest != nil {
		rest()
	}
}

// Begin does of Handle what must happen in the order of the messages, so that
// a cancellation finds the request before it. It returns the rest, nil when
// there is none.
func (s *Server) Begin(ctx context.Context, r *Request, x Exchange) (rest func()) {
	switch {
	case r.Message.Kind == mcp.Request && r.Peer == nil:
		return func() { s.answerRequest(ctx, r, x) }
	case r.Message.Kind == mcp.Request:
		ctx, p := r.Peer.begin(ctx, r.Message.ID, x)
		if p == nil {
			s.Refuse(r, x, duplicateID())
			return nil
		}
		return func() {
			defer p.end()
			s.answerRequest(ctx, r, p)
		}
	case r.Message.Kind == mcp.Response:
		s.answered(r)
	case r.Message.Method == mcp.NotifyCancelled:
		s.cancelled(r)
	}
	return nil
}

func (s *Server) answerRequest(ctx context.Context, r *Request, x Exchange) {
	err := catalogue.CheckURI(r.Message.P.URI)
	switch {
	case err != nil:
		s.Refuse(r, x, err)
	case r.Modern():
		s.modern(ctx, r, x)
	default:
		s.legacy(ctx, r, x)
	}
}

// hold opens an account for a request's results where its door has not: over a
// connection each request has its own.
func (s *Server) hold(ctx context.Context) (_ context.Context, release func()) {
	if budget.Of(ctx) != nil {
		return ctx, func() {}
	}
	return s.gateway.Hold(ctx)
}

// clientCache remembers how clients describe themselves, byte for byte: the
// same client says the same with every request.
type clientCache struct {
	mu    sync.RWMutex
	known map[string]*busv1.Client
}

// Bounds of the cache: clients, and bytes of one client's description.
const (
	maxClients     = 1024
	maxClientBytes = 4 << 10
)

func (c *clientCache) get(info, capabilities []byte) *busv1.Client {
	// Both are JSON objects, so nothing of the one can be read as the other.
	var room [512]byte
	key := append(append(room[:0], info...), capabilities...)
	c.mu.RLock()
	client := c.known[string(key)]
	c.mu.RUnlock()
	if client != nil {
		return client
	}
	var about struct {
		Name    string `json:"name,omitzero"`
		Version string `json:"version,omitzero"`
	}
	// Self-reported and unverified: one that does not parse has no name.
	_ = json.Unmarshal(info, &about)
	client = &busv1.Client{Name: about.Name, Version: about.Version, Capabilities: append([]byte(nil), capabilities...)}
	if len(key) > maxClientBytes {
		return client
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxClients {
		c.known = map[string]*busv1.Client{}
	}
	c.known[string(key)] = client
	return client
}
