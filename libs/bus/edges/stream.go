package edges

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// maxRoundFrames bounds the frames kept of one call, and the updates of one
// service; older ones make room.
const maxRoundFrames = 4096

// StreamTTL is how long a client may come back for an answer.
//
//limit:time an answer that a client may come back for is kept | `history_lost`
const StreamTTL = 30 * time.Minute

// EventStream is the JetStream stream of all that clients may come back for.
var EventStream = jetstream.StreamConfig{
	Name: "EVT", Description: "what clients may come back for", Subjects: []string{subject.Events},
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
	// Leavable says that a service may have the client's connection closed.
	Leavable bool

	last    Position
	kept    bool   // the last frame taken is in the stream
	subject string // of the last call's frames
	service string
	call    string
	bytes   int // kept, of the frames taken
}

// NewStream names a stream. Nothing is on the bus yet.
func (c *Caller) NewStream() *Stream { return &Stream{Name: bus.NewID(), Home: c.Edge()} }

// CallOn is bus.Caller.CallWith for a client that may come back for the rest of the answer at
// another edge; nil is for one that cannot. Questions of a service to the client are kept.
func (c *Caller) CallOn(ctx context.Context, s *Stream, service string, req *busv1.Request, o bus.Options) (*busv1.Frame, error) {
	if s == nil {
		return c.CallWith(ctx, service, req, o)
	}
	o.Stream = s
	frame, err := c.CallWith(ctx, service, req, o)
	if err == nil && !s.kept && frame.GetInputRequired() != nil {
		// The answer goes on after this: its service had no need to keep it.
		if err := c.store(ctx, s, frame); err != nil {
			c.conn.Log().Warn("a client's request cannot be carried on at another edge", "service", service, "error", err)
		}
	}
	return frame, err
}

// Last is the position of the frame taken last.
func (s *Stream) Last() Position { return s.last }

// Call is the id of the call whose frames came last, whichever attempt of it they are of;
// empty before the first.
func (s *Stream) Call() string { return bus.CallOf(s.call) }

// Next readies the request of the next call; see bus.Stream.
func (s *Stream) Next(service string, req *busv1.Request) {
	s.enter(subject.Frames(service, s.Home, s.Name, s.last.Round+1, req.Id), service, s.last.Round+1, req.Id)
	req.Stream, req.StreamAll = s.subject, s.KeepAll
}

func (s *Stream) enter(at, service string, round uint32, call string) {
	s.subject, s.service, s.call, s.kept = at, service, call, false
	s.last = Position{Round: round}
}

// MayLeave is Leavable; see bus.Stream.
func (s *Stream) MayLeave() bool { return s.Leavable }

// Took notes a frame that was taken; see bus.Stream.
func (s *Stream) Took(at string, seq uint32, size int) {
	s.last.Seq = seq
	if s.kept = subject.Kept(at); s.kept {
		s.bytes += size
	}
}

// Bytes is how much of the stream is kept, as far as it was taken here.
func (s *Stream) Bytes() int { return s.bytes }

// Keep adds a message that the edge sends to the client on its own, and waits
// until it is stored.
func (c *Caller) Keep(ctx context.Context, s *Stream, sent *busv1.Sent) error {
	s.last.Seq++
	return c.store(ctx, s, &busv1.Frame{Seq: s.last.Seq, Instance: c.Edge(), Body: &busv1.Frame_Sent{Sent: sent}})
}

// Asked keeps what the edge asks a client before any service is called, so that
// another edge can carry on from the question. It takes the place of a call's
// answer. A question that cannot be kept can only be answered at this edge.
func (c *Caller) Asked(ctx context.Context, s *Stream, question *busv1.InputRequired) {
	round, call := s.last.Round+1, bus.NewID()
	s.enter(subject.Frames(subject.Edge, s.Home, s.Name, round, call), subject.Edge, round, call)
	s.last.Seq, s.kept = 1, true
	err := c.store(ctx, s, &busv1.Frame{Seq: 1, Instance: c.Edge(), Body: &busv1.Frame_InputRequired{InputRequired: question}})
	if err != nil {
		c.conn.Log().Warn("a client's question cannot be carried on at another edge", "error", err)
	}
}

// AskedByEdge reports whether the last answer of the stream is a question of an
// edge's own.
func (s *Stream) AskedByEdge() bool { return s.service == subject.Edge }

func (c *Caller) store(ctx context.Context, s *Stream, f *busv1.Frame) error {
	data, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = c.conn.JetStream().Publish(ctx, s.subject, data, jetstream.WithRetryAttempts(0))
	return err
}

// Adopt has the frames of a stream that another edge made delivered here, for
// CallOn. release ends that.
func (c *Caller) Adopt(s *Stream) (release func(), err error) {
	if s.Home == c.Edge() {
		return func() {}, nil
	}
	kept, live := subject.FramesIn(s.Home, s.Name)
	return c.Hear(kept, live)
}

// CancelOn stops the last call of a stream, wherever it runs.
func (c *Caller) CancelOn(s *Stream, reason string) {
	if s.service != "" && s.service != subject.Edge {
		c.conn.Cancel(s.service, s.call, reason)
	}
}
