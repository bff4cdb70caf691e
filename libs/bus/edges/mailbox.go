package edges

import (
	"context"
	"crypto/subtle"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// The most that may wait in one mailbox: messages, and bytes of them unless it is a single one.
const (
	maxWaiting      = 256
	maxWaitingBytes = 4 << 20
)

// takeTime is how long an edge may take to confirm a client's message, which it only has to queue.
const takeTime = 2 * time.Second

// Mailbox queues a client's posts for its stream, which this edge holds. The posts may arrive at
// any edge.
type Mailbox struct {
	// Address is unguessable; the client names it with every post.
	Address string
	// C has a value when messages wait.
	C chan struct{}

	caller *Caller
	token  string
	owner  []byte

	mu      sync.Mutex
	waiting []Posted
	bytes   int
}

// Posted is one message that a client posted.
type Posted struct {
	Body []byte
	// Identity is the client's identity, sealed by the edge that received the post.
	Identity []byte
}

// OpenMailbox opens a mailbox for a client's posts. Only the client named owner may post. Close the
// mailbox when done.
func (c *Caller) OpenMailbox(owner []byte) *Mailbox {
	token := bus.NewID()
	b := &Mailbox{Address: c.Edge() + "." + token, C: make(chan struct{}, 1), caller: c, token: token, owner: owner}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mailboxes[token] = b
	return b
}

// Take returns the messages that wait, in the order they were posted.
func (b *Mailbox) Take() []Posted {
	b.mu.Lock()
	defer b.mu.Unlock()
	messages := b.waiting
	b.waiting, b.bytes = nil, 0
	return messages
}

// Close forgets the mailbox; a later message is refused with UnknownSession.
func (b *Mailbox) Close() {
	b.caller.mu.Lock()
	defer b.caller.mu.Unlock()
	delete(b.caller.mailboxes, b.token)
}

// put queues a message, or says why not.
func (b *Mailbox) put(m *edgev1.ClientMessage) fault.Reason {
	if subtle.ConstantTimeCompare(b.owner, m.OwnerDigest) != 1 {
		return fault.UnknownSession // other clients do not learn that it exists
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxWaiting || len(b.waiting) > 0 && b.bytes+len(m.Body) > maxWaitingBytes {
		return fault.Overloaded
	}
	b.waiting, b.bytes = append(b.waiting, Posted{m.Body, m.Identity}), b.bytes+len(m.Body)
	select {
	case b.C <- struct{}{}:
	default:
	}
	return ""
}

// receive queues a client's message and confirms it. It must not block: messages for all mailboxes
// of this edge pass through it.
func (c *Caller) receive(msg *nats.Msg) {
	m := &edgev1.ClientMessage{}
	if !subject.OwnReply(subject.Edge, msg.Reply) || proto.Unmarshal(msg.Data, m) != nil {
		return
	}
	if err := c.conn.Publish(msg.Reply, &edgev1.ClientMessageTaken{Reason: string(c.queue(m))}); err != nil {
		c.conn.Log().Debug("a client's message was not acknowledged", "error", err)
	}
}

// queue returns why a message was not queued, or nothing.
func (c *Caller) queue(m *edgev1.ClientMessage) fault.Reason {
	c.mu.Lock()
	b := c.mailboxes[m.Token]
	c.mu.Unlock()
	if b == nil {
		return fault.UnknownSession
	}
	return b.put(m)
}

// Post hands a client's message to the edge with the mailbox of that address, and returns once that
// edge has queued it, so later posts come after it. The error is a *fault.Error: InvalidRequest for
// a malformed address, UnknownSession if there is no such mailbox or it has another owner,
// Overloaded if too much is waiting there, Unavailable if the bus is away, and PeerLost if the edge
// does not confirm the message.
func (c *Caller) Post(ctx context.Context, address string, owner []byte, p Posted) error {
	edge, token, ok := strings.Cut(address, ".")
	if !ok || subject.ValidName(edge) != nil || subject.ValidName(token) != nil {
		return fault.New(fault.InvalidRequest, "not the address of a mailbox")
	}
	data, err := proto.Marshal(&edgev1.ClientMessage{Token: token, Body: p.Body, OwnerDigest: owner, Identity: p.Identity})
	if err != nil {
		return err
	}
	if limit := c.conn.NATS().MaxPayload(); limit > 0 && int64(len(data)) > limit {
		return fault.New(fault.TooLarge, "the message is %d bytes on the bus; the limit is %d", len(data), limit)
	}
	reply := subject.Reply(subject.Edge, c.Edge(), bus.NewID())
	word := c.Expect(reply)
	defer word.Close()
	if err := c.conn.NATS().PublishRequest(subject.Message(edge), reply, data); err != nil {
		return wire.NotSent(err)
	}
	bounded, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	msg, err := word.Next(bounded)
	switch {
	case err == nil:
		return taken(msg)
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, "cancelled").Because(ctx.Err())
	}
	return fault.New(fault.PeerLost, "the edge that holds the stream does not answer; whether it has the message is unknown")
}

// taken reads an edge's confirmation of a message.
func taken(msg *nats.Msg) error {
	got := &edgev1.ClientMessageTaken{}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		got.Reason = string(fault.UnknownSession) // its edge is gone
	} else if err := proto.Unmarshal(msg.Data, got); err != nil {
		return fault.New(fault.PeerLost, "the edge that holds the stream answered with something else").Because(err)
	}
	switch reason := fault.Reason(got.Reason); reason {
	case "":
		return nil
	case fault.UnknownSession:
		return fault.New(reason, "no such session, or it has ended")
	case fault.Overloaded:
		return fault.New(reason, "too many messages wait for this session; try again shortly")
	default:
		return fault.New(fault.Internal, "the edge that holds the stream did not take the message").Ran(fault.No)
	}
}
