package era

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/conc/panics"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Out is where the messages of a connection go. It is used by many goroutines.
type Out interface {
	// Send sends a message. It may wait for a slow client, but not for ever, and
	// reports false when the client is gone.
	Send(message []byte) bool
	// Notify sends a notification, or drops what the client is too slow for.
	Notify(message []byte)
}

// ConversationConfig says between whom a conversation is.
type ConversationConfig struct {
	Server *Server
	Out    Out
	// Door names the door.
	Door string
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	// Modern says that the transport carries requests of 2026-07-28 too.
	Modern bool
	// Credentials of the connection.
	Credentials gateway.Credentials
}

// Conversation is MCP over a connection that is its own session: everything
// but the framing. initialize settles the version, requests are answered beside
// each other, and what cannot be read is answered with an error.
type Conversation struct {
	cfg  ConversationConfig
	base Request
	x    Exchange

	running  sync.WaitGroup
	slots    chan struct{}
	bytes    atomic.Int64 // of the requests that have a slot
	draining bool
}

// maxInFlight bounds the requests being answered. More are refused: if reading
// waited instead, no cancellation could make room.
const maxInFlight = 1024

// maxInFlightBytes bounds what these requests have together, as they were sent.
// One request is taken whatever it has.
const maxInFlightBytes = 16 << 20

// NewConversation makes a conversation in which nothing was said yet.
func NewConversation(cfg ConversationConfig) *Conversation {
	return &Conversation{
		cfg: cfg, base: Request{Door: cfg.Door, Credentials: cfg.Credentials, Peer: NewPeer()},
		x: connection{cfg.Out}, slots: make(chan struct{}, maxInFlight),
	}
}

// Receive takes up one message of the client, or a batch of 2025-03-26. It
// returns before the answer, unless that must come before the next message is
// read. Requests end with ctx. Receive and Drain are for one goroutine.
func (c *Conversation) Receive(ctx context.Context, message []byte) {
	s := c.base.Peer.Session.Load()
	if mcp.IsBatch(message) && s != nil && s.Version == mcp.V20250326 {
		c.batch(ctx, s, message)
		return
	}
	m, err := mcp.Parse(message, c.cfg.Limits)
	r := c.base
	r.Message, r.Session, r.Version = &m, s, versionOf(&m, s)
	switch {
	case err != nil:
		c.cfg.Server.Refuse(&r, c.x, err)
	case m.Kind == mcp.Request && c.draining:
		c.cfg.Server.Refuse(&r, c.x, errStopping)
	case m.Kind == mcp.Request && m.Method == mcp.MethodInitialize && m.P.ProtocolVersion == "":
		c.initialize(ctx, &r)
	case m.Kind != mcp.Request:
		c.cfg.Server.Handle(ctx, &r, discard{})
	case !c.speaks(r.Version):
		err := unsupportedVersion(r.Version, c.speaks)
		r.Version = mcp.Modern // the era that knows this error
		c.cfg.Server.Refuse(&r, c.x, err)
	default:
		c.answer(ctx, &r, len(message))
	}
}

// Refuse answers what the door could not read as a message.
func (c *Conversation) Refuse(err error) {
	_, message := ErrorMessage(nil, "", err)
	c.cfg.Out.Send(message)
}

// Drain refuses every further request. Answers of the client still count, for
// the requests in flight that wait for them.
func (c *Conversation) Drain() { c.draining = true }

// Wait waits until nothing of the conversation runs any more: requests end
// with their answer or context, the telling of changes with that of initialize
// or with the server.
func (c *Conversation) Wait() { c.running.Wait() }

func (c *Conversation) speaks(version string) bool {
	return mcp.IsLegacy(version) || c.cfg.Modern && version == mcp.Modern
}

var errStopping = fault.New(fault.Unavailable, "this edge is stopping; connect again")

// take takes a slot for requests, or says why there is none.
func (c *Conversation) take(size int) error {
	if held := c.bytes.Add(int64(size)); held > maxInFlightBytes && held > int64(size) {
		c.bytes.Add(-int64(size))
		return fault.New(fault.Overloaded, "the requests in flight have %d bytes together already; wait for an answer", maxInFlightBytes)
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
		c.bytes.Add(-int64(size))
		return fault.New(fault.Overloaded, "%d requests are in flight already; wait for an answer", maxInFlight)
	}
}

func (c *Conversation) give(size int) {
	c.bytes.Add(-int64(size))
	<-c.slots
}

// run does the rest beside the next messages, and gives the slot back. A defect
// met by one request is refused: it must not end the connections of others.
func (c *Conversation) run(size int, rest func(), refuse func(error)) {
	c.running.Go(func() {
		defer c.give(size)
		if caught := panics.Try(rest); caught != nil {
			c.cfg.Server.log.Error("a request panicked", "door", c.cfg.Door, "panic", caught.Value, "stack", string(caught.Stack))
			refuse(fault.New(fault.Internal, "internal error"))
		}
	})
}

// batch answers a batch, which 2025-03-26 alone has, beside other requests.
func (c *Conversation) batch(ctx context.Context, s *session.Session, message []byte) {
	base := c.base
	base.Session, base.Version = s, s.Version
	entries, err := mcp.ParseBatch(message, c.cfg.Limits)
	switch {
	case err != nil:
	case c.draining:
		err = errStopping
	default:
		err = c.take(len(message))
	}
	if err != nil {
		c.Refuse(err)
		return
	}
	c.run(len(message), func() {
		ctx, release := c.cfg.Server.gateway.Hold(ctx)
		defer release()
		if responses := c.cfg.Server.Batch(ctx, base, entries); responses != nil {
			c.cfg.Out.Send(responses)
		}
	}, c.Refuse)
}

// answer answers a request beside the others.
func (c *Conversation) answer(ctx context.Context, r *Request, size int) {
	if err := c.take(size); err != nil {
		c.cfg.Server.Refuse(r, c.x, err)
		return
	}
	if rest := c.cfg.Server.Begin(ctx, r, c.x); rest != nil {
		c.run(size, rest, func(err error) { c.cfg.Server.Refuse(r, c.x, err) })
	} else {
		c.give(size)
	}
}

func (c *Conversation) initialize(ctx context.Context, r *Request) {
	s, response := c.cfg.Server.Initialize(r, c.x)
	if s == nil {
		return
	}
	if c.base.Peer.Session.Swap(s) != nil {
		c.cfg.Out.Send(response)
		return
	}
	answered := make(chan struct{})
	c.running.Go(func() {
		now := func(context.Context) *session.Session { return c.base.Peer.Session.Load() }
		c.cfg.Server.Changes(ctx, c.cfg.Credentials, c.x, now, func() {
			c.cfg.Out.Send(response)
			close(answered)
		})
	})
	<-answered
}

// versionOf says under which version a message is: its own, or the one that
// initialize settled for this connection. Before either, methods that only one
// era has tell; for the rest the oldest reading does no harm.
func versionOf(m *mcp.Message, s *session.Session) string {
	switch {
	case m.P.ProtocolVersion != "":
		return m.P.ProtocolVersion
	case m.Method == mcp.MethodDiscover || m.Method == mcp.MethodListen:
		return mcp.Modern
	case s != nil:
		return s.Version
	}
	return mcp.V20250326
}

// connection is the exchange of every message of a conversation.
type connection struct{ Out }

// Ask implements Exchange.
func (x connection) Ask(message []byte) bool { return x.Send(message) }

// Respond implements Exchange.
func (x connection) Respond(_ int, message []byte) { x.Send(message) }

// discard is the exchange of messages that get no answer.
type discard struct{}

func (discard) Notify([]byte)       {}
func (discard) Ask([]byte) bool     { return false }
func (discard) Respond(int, []byte) {}
