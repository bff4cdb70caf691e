package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// maxRoundFrames bounds the frames kept of one call, and the updates of one
// service; older ones make room.
const maxRoundFrames = 4096

// eventStream is the JetStream stream of all that clients may come back for.
var eventStream = jetstream.StreamConfig{
	Name: "EVT", Description: "what clients may come back for", Subjects: []string{eventRoot + ">"},
	Storage: jetstream.FileStorage, AllowDirect: true, Discard: jetstream.DiscardOld,
	MaxAge: StreamTTL, MaxBytes: 512 << 20, MaxMsgsPerSubject: maxRoundFrames,
}

// Position is a place in a stream: the frame with that number in the answer of
// that call, both counted from 1.
type Position struct{ Round, Seq uint32 }

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.Round < q.Round || p.Round == q.Round && p.Seq < q.Seq
}

// Stream is the answer to one request of a client, kept on the bus from when
// it takes long, so that it survives the connection and the edge. It is used
// by one goroutine.
type Stream struct {
	// Name is unguessable.
	Name string
	// Home is the edge that made the stream; its subjects carry that name even
	// when another edge serves it.
	Home string
	// KeepAll has even answers kept that come at once. The edge sets it as soon
	// as the client may come back.
	KeepAll bool
	// MayLeave says that a service may have the client's connection closed.
	MayLeave bool

	last    Position
	kept    bool   // the last frame taken is in the stream
	subject string // of the last call's frames
	service string
	call    string
	bytes   int // kept, of the frames taken
}

// ErrLeft is the cause of a context whose caller leaves the call to whoever
// follows its stream.
var ErrLeft = errors.New("left to the stream")

// NewStream names a stream. Nothing is on the bus yet.
func (c *Caller) NewStream() *Stream { return &Stream{Name: newID(), Home: c.edge} }

// Edge is this edge's name on the bus.
func (c *Caller) Edge() string { return c.edge }

// Last is the position of the frame taken last.
func (s *Stream) Last() Position { return s.last }

// Call is the id of the call whose frames came last; empty before the first.
func (s *Stream) Call() string { return s.call }

// next readies a request for the stream.
func (s *Stream) next(service string, req *busv1.Request) {
	s.enter(streamSubject(service, s.Home, s.Name, s.last.Round+1, req.Id), service, s.last.Round+1, req.Id)
	req.Stream, req.StreamAll = s.subject, s.KeepAll
}

func (s *Stream) enter(subject, service string, round uint32, call string) {
	s.subject, s.service, s.call, s.kept = subject, service, call, false
	s.last = Position{Round: round}
}

func (s *Stream) took(subject string, seq uint32, size int) {
	s.last.Seq = seq
	if s.kept = strings.HasPrefix(subject, eventRoot); s.kept {
		s.bytes += size
	}
}

// Bytes is how much of the stream is kept, as far as it was taken here.
func (s *Stream) Bytes() int { return s.bytes }

// Keep adds a message that the edge sends to the client on its own, and waits
// until it is stored.
func (c *Caller) Keep(ctx context.Context, s *Stream, sent *busv1.Sent) error {
	s.last.Seq++
	return c.store(ctx, s, &busv1.Frame{Seq: s.last.Seq, Instance: c.edge, Body: &busv1.Frame_Sent{Sent: sent}})
}

// Asked keeps what the edge asks a client before any service is called, so that
// another edge can carry on from the question. It takes the place of a call's
// answer. A question that cannot be kept can only be answered at this edge.
func (c *Caller) Asked(ctx context.Context, s *Stream, question *busv1.InputRequired) {
	round, call := s.last.Round+1, newID()
	s.enter(streamSubject(edges, s.Home, s.Name, round, call), edges, round, call)
	s.last.Seq, s.kept = 1, true
	err := c.store(ctx, s, &busv1.Frame{Seq: 1, Instance: c.edge, Body: &busv1.Frame_InputRequired{InputRequired: question}})
	if err != nil {
		c.conn.log.Warn("a client's question cannot be carried on at another edge", "error", err)
	}
}

// AskedByEdge reports whether the last answer of the stream is a question of an
// edge's own.
func (s *Stream) AskedByEdge() bool { return s.service == edges }

func (c *Caller) store(ctx context.Context, s *Stream, f *busv1.Frame) error {
	data, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = c.conn.js.Publish(ctx, s.subject, data, jetstream.WithRetryAttempts(0))
	return err
}

// Adopt has the frames of a stream that another edge made delivered here, for
// CallOn. release ends that.
func (c *Caller) Adopt(s *Stream) (release func(), err error) {
	if s.Home == c.edge {
		return func() {}, nil
	}
	var subs []*nats.Subscription
	release = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
	}
	for _, subject := range s.subjects() {
		sub, err := c.conn.nc.Subscribe(subject, c.deliver)
		if err != nil {
			release()
			return nil, publishFault(err)
		}
		subs = append(subs, sub)
	}
	return release, nil
}

// subjects are those of a stream's frames and of its signs of life.
func (s *Stream) subjects() []string {
	rest := "*." + s.Home + "." + s.Name + ".>"
	return []string{eventRoot + rest, liveRoot + rest}
}

// CancelOn stops the last call of a stream, wherever it runs.
func (c *Caller) CancelOn(s *Stream, reason string) {
	if s.service != "" && s.service != edges {
		c.cancel(s.service, s.call, reason)
	}
}

// Present reports whether an edge is on the bus.
func (c *Caller) Present(ctx context.Context, edge string) bool {
	if edge == c.edge {
		return true
	}
	if ValidName(edge) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	// Edges leave what they don't know unanswered; NATS answers for one that is
	// not there.
	_, err := c.conn.nc.RequestWithContext(ctx, replySubject(clients, edge, newID()), nil)
	return !errors.Is(err, nats.ErrNoResponders)
}
