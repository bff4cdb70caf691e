// Package edges has the messages between edges: a client's answers, cancellations and posts, which
// may arrive at any edge, and the frames that are kept for clients that reconnect at another edge.
// The idea: the edge that waits for a message is part of its subject or address, so any edge can
// forward it without shared state. Start reading at Caller, then Stream and Mailbox. Only
// services/edge uses it.
package edges

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// Caller is the bus.Caller of an edge, with the messages to other edges.
type Caller struct {
	*bus.Caller
	conn  *bus.Conn
	leave func()

	mu        sync.Mutex
	mailboxes map[string]*Mailbox // by token
}

// NewCaller joins the edges of a bus. Close it before the connection.
func NewCaller(conn *bus.Conn) (*Caller, error) {
	inner, err := bus.NewCaller(conn)
	if err != nil {
		return nil, err
	}
	c := &Caller{Caller: inner, conn: conn, mailboxes: map[string]*Mailbox{}}
	if c.leave, err = conn.Subscribe(subject.Message(c.Edge()), c.receive); err != nil {
		_ = inner.Close()
		return nil, err
	}
	return c, nil
}

// Close is bus.Caller.Close.Caller; later messages to mailboxes are discarded.
func (c *Caller) Close() error {
	c.leave()
	return c.Caller.Close()
}

// Present reports whether an edge is on the bus.
func (c *Caller) Present(ctx context.Context, edge string) bool {
	if edge == c.Edge() {
		return true
	}
	if !subject.Token(edge) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	// Edges do not answer unknown messages; NATS answers if the edge is not there.
	_, err := c.conn.NATS().RequestWithContext(ctx, subject.Reply(subject.Client, edge, bus.NewID()), nil)
	return !errors.Is(err, nats.ErrNoResponders)
}

// CancelElsewhere tells every edge that a client gave up a request, because another edge may hold
// it.
func (c *Caller) CancelElsewhere(session string, requestID []byte) error {
	return c.conn.Publish(subject.Cancel(subject.Edge), &edgev1.ClientCancel{Session: session, RequestId: requestID})
}

// OnCancelElsewhere calls f for every request that a client gave up at some
// edge. f must not block. stop ends that.
func (c *Caller) OnCancelElsewhere(f func(session string, requestID []byte)) (stop func(), err error) {
	return c.conn.Subscribe(subject.Cancel(subject.Edge), func(msg *nats.Msg) {
		gave := &edgev1.ClientCancel{}
		if proto.Unmarshal(msg.Data, gave) == nil && gave.Session != "" {
			f(gave.Session, gave.RequestId)
		}
	})
}

// TellNamesAssigned makes every edge read again which service owns which name.
func TellNamesAssigned(ctx context.Context, conn *bus.Conn) error {
	if err := conn.Publish(subject.Names, nil); err != nil {
		return err
	}
	return conn.Flush(ctx)
}

// OnNamesAssigned calls f when an operator has given a name to another service.
// f must not block. stop ends that.
func OnNamesAssigned(conn *bus.Conn, f func()) (stop func(), err error) {
	return conn.Subscribe(subject.Names, func(*nats.Msg) { f() })
}
