package protocol

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/conc/panics"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// ConnectionConfig describes a connection and its owner.
type ConnectionConfig struct {
	Server *Server
	// Out is the receiver of messages. Many goroutines use it.
	Out Sender
	// Door names the door.
	Door string
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	// Modern says that the transport carries requests of 2026-07-28 too.
	Modern bool
	// Lease is the lease of the connection's owner, and the connection lasts as long as the
	// lease.
	Lease *gateway.Lease
}

// Connection is MCP over a connection that is its own session: everything but the framing.
// initialize settles the version, requests are answered concurrently, and unreadable messages are
// answered with an error.
type Connection struct {
	cfg ConnectionConfig
	// name is unguessable: the client's answers to requests of the server come over this
	// connection.
	name string
	base Request
	out  direct
	// session is the session of a legacy client; nil before initialize.
	session atomic.Pointer[store.Session]

	running  sync.WaitGroup
	slots    chan struct{}
	bytes    atomic.Int64 // of the requests that have a slot
	draining bool
}

// maxInFlight bounds the requests being answered. Further requests are refused: if reading waited
// instead, no cancellation could make room.
//
//limit:connection concurrent requests of a client at stdio, SSE, or MCP over a WebSocket | `overloaded`
const maxInFlight = 1024

// maxInFlightBytes bounds the size of these requests together, as they were sent. A single
// request is taken whatever its size.
const maxInFlightBytes = 16 << 20

// NewConnection makes a connection that has carried nothing yet.
func NewConnection(cfg ConnectionConfig) *Connection {
	c := &Connection{cfg: cfg, name: rand.Text(), out: direct{cfg.Out}, slots: make(chan struct{}, maxInFlight)}
	c.base = Request{Door: cfg.Door, InFlight: NewInFlight(), connection: c}
	return c
}

// Receive takes one message of the client, or a batch of 2025-03-26. It returns before the
// answer, unless that must come before the next message is read. Requests end with ctx. Only one
// goroutine may call Receive and Drain.
func (c *Connection) Receive(ctx context.Context, message []byte) {
	c.ReceiveFrom(ctx, c.cfg.Lease.Credentials(), message)
}

// ReceiveFrom is Receive for a message with credentials of its own, which belong to the
// connection's principal.
func (c *Connection) ReceiveFrom(ctx context.Context, from gateway.Credentials, message []byte) {
	s := c.session.Load()
	r := c.base
	r.Credentials = from
	if mcp.IsBatch(message) && s != nil && s.Version == mcp.V20250326 {
		r.Session, r.Version = s, s.Version
		c.batch(ctx, r, message)
		return
	}
	m, err := mcp.Parse(message, c.cfg.Limits)
	r.Message, r.Session, r.Version = &m, s, versionOf(&m, s)
	switch {
	case err != nil:
		c.cfg.Server.Refuse(&r, c.out, err)
	case m.Kind == mcp.Request && c.draining:
		c.cfg.Server.Refuse(&r, c.out, errStopping)
	case m.Kind == mcp.Request && m.Method == mcp.MethodInitialize && m.P.ProtocolVersion == "":
		c.initialize(ctx, &r)
	case m.Kind != mcp.Request:
		c.cfg.Server.Handle(ctx, &r, c.out)
	case !c.speaks(r.Version):
		err := unsupportedVersion(r.Version, c.speaks)
		r.Version = mcp.Modern // the version that knows this error
		c.cfg.Server.Refuse(&r, c.out, err)
	default:
		c.answer(ctx, &r, len(message))
	}
}

// Refuse answers a message that the door could not read.
func (c *Connection) Refuse(err error) {
	_, message := ErrorMessage(nil, "", err)
	c.cfg.Out.Send(message)
}

// Drain refuses all further requests. Answers of the client still count, for the requests in
// flight that wait for them.
func (c *Connection) Drain() { c.draining = true }

// Wait waits until nothing of the connection runs any more. Requests end with their answer or
// context; the stream of changes ends with the context of initialize or with the server.
func (c *Connection) Wait() { c.running.Wait() }

func (c *Connection) speaks(version string) bool {
	return mcp.IsLegacy(version) || c.cfg.Modern && version == mcp.Modern
}

var errStopping = fault.New(fault.Unavailable, "this edge is stopping; connect again")

// take takes a slot for requests; the error says why there is no free one.
func (c *Connection) take(size int) error {
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

func (c *Connection) give(size int) {
	c.bytes.Add(-int64(size))
	<-c.slots
}

// run calls rest concurrently with the next messages, and then gives the slot back. A panic in
// one request refuses that request: it must not end the connections of others.
func (c *Connection) run(size int, rest func(), refuse func(error)) {
	c.running.Go(func() {
		defer c.give(size)
		if caught := panics.Try(rest); caught != nil {
			c.cfg.Server.log.Error("a request panicked", "door", c.cfg.Door, "panic", caught.Value, "stack", string(caught.Stack))
			refuse(fault.New(fault.Internal, "internal error"))
		}
	})
}

// batch answers a batch, which only 2025-03-26 has.
func (c *Connection) batch(ctx context.Context, base Request, message []byte) {
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
		ctx, release := c.cfg.Server.gateway.Track(ctx)
		defer release()
		if responses := c.cfg.Server.Batch(ctx, base, entries); responses != nil {
			c.cfg.Out.Send(responses)
		}
	}, c.Refuse)
}

// answer answers a request concurrently with the others.
func (c *Connection) answer(ctx context.Context, r *Request, size int) {
	if err := c.take(size); err != nil {
		c.cfg.Server.Refuse(r, c.out, err)
		return
	}
	if rest := c.cfg.Server.Begin(ctx, r, c.out); rest != nil {
		c.run(size, rest, func(err error) { c.cfg.Server.Refuse(r, c.out, err) })
	} else {
		c.give(size)
	}
}

func (c *Connection) initialize(ctx context.Context, r *Request) {
	s, response, err := c.cfg.Server.Initialize(ctx, r)
	if err != nil {
		c.cfg.Server.Refuse(r, c.out, err)
		return
	}
	if c.session.Swap(s) != nil {
		c.cfg.Out.Send(response)
		return
	}
	answered := make(chan struct{})
	c.running.Go(func() {
		now := func(context.Context) *store.Session { return c.session.Load() }
		c.cfg.Server.Changes(ctx, c.cfg.Lease, c.out, now, func() {
			c.cfg.Out.Send(response)
			close(answered)
		})
	})
	<-answered
}

// change changes the session.
func (c *Connection) change(f func(*store.Session) error) error {
	for {
		old := c.session.Load()
		changed := *old
		if err := f(&changed); err != nil {
			return err
		}
		if c.session.CompareAndSwap(old, &changed) {
			return nil
		}
	}
}

// versionOf returns the version of a message: its own, or the one that initialize settled for
// this connection. Before either is known, methods that only modern or only legacy versions have
// decide. For the rest, the oldest version does no harm.
func versionOf(m *mcp.Message, s *store.Session) string {
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

// direct is the Responder of every message of a connection.
type direct struct{ Sender }

// Respond implements Responder.
func (d direct) Respond(_ int, message []byte, _ error) { d.Send(message) }
