// Package auditlog carries the audit trail from edges to the audit service over a JetStream stream.
// Edges append events (Log), the audit service reads and acknowledges them (Reader), and the stream
// keeps the events that are not acknowledged yet. Start reading at Log.Append and Reader.Next.
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// The size of one message, unless one event alone is larger.
	groupEvents = 128
	groupBytes  = 128 << 10
	// againTime is how long a message waits for its acknowledgement before it is sent again: it may
	// be lost with a stream leader that stops. The wait is at least twice the time of the last
	// acknowledgement: a slow disk that has to write everything twice never catches up. ackTime is
	// how long each of the two may take in total, on a slow disk.
	againTime = 600 * time.Millisecond
	ackTime   = 1200 * time.Millisecond
	// A message that no server accepts, because the stream's leader is changing, is sent moveTries
	// times, moveWait apart.
	moveTries = 8
	moveWait  = 150 * time.Millisecond
)

// groupField is the number of AuditGroup.events.
var groupField = (&auditv1.AuditGroup{}).ProtoReflect().Descriptor().Fields().ByName("events").Number()

// Log puts events into the audit trail. It may be used from many goroutines: one message at a time
// waits for its acknowledgement, and events that are appended meanwhile make up the next one.
type Log struct {
	conn    *bus.Conn
	js      jetstream.JetStream
	subject string
	room    *room

	// again and took (time of the last acknowledgement) belong to the sending goroutine.
	again *time.Timer
	took  time.Duration

	mu      sync.Mutex
	waiting []*group // not sent yet, in order; the last one may grow
	sending bool
}

// group is a message that is being filled or sent.
type group struct {
	events [][]byte
	bytes  int
	err    error         // nil once NATS has stored it
	done   chan struct{} // closed once err is valid
}

// New returns the log of an edge, named as bus.Caller.Edge.
func New(conn *bus.Conn, edge string) (*Log, error) {
	if !subject.Token(edge) {
		return nil, fmt.Errorf("edge %.64q: no edge has such a name", edge)
	}
	js, err := jetstream.New(conn.NATS(), jetstream.WithPublishAsyncTimeout(ackTime))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return newLog(conn, js, edge, &room{}), nil
}

// Of returns a log that appends events as another edge, which left them behind.
func (l *Log) Of(edge string) (*Log, error) {
	if !subject.Token(edge) {
		return nil, fmt.Errorf("edge %.64q: no edge has such a name", edge)
	}
	return newLog(l.conn, l.js, edge, l.room), nil
}

func newLog(conn *bus.Conn, js jetstream.JetStream, edge string, r *room) *Log {
	l := &Log{conn: conn, js: js, subject: subject.Audit(edge), room: r, again: time.NewTimer(time.Hour)}
	l.again.Stop()
	return l
}

// Append adds events and returns when all are safe: stored by NATS. After an error some may be
// stored; append them again, because the audit service counts an event once. The error is a
// *fault.Error with reason Unavailable.
func (l *Log) Append(ctx context.Context, events ...*auditv1.AuditEvent) error {
	records := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if records[i], err = proto.Marshal(e); err != nil {
			return notRecorded(err)
		}
	}
	return l.AppendRecords(ctx, records...)
}

// AppendRecords is Append for events that are marshalled. The log keeps the
// bytes.
func (l *Log) AppendRecords(ctx context.Context, events ...[]byte) error {
	var first error
	for _, g := range l.add(events) {
		select {
		case <-g.done:
			first = errors.Join(first, g.err)
		case <-l.conn.Closed():
			return notRecorded(nats.ErrConnectionClosed)
		case <-ctx.Done():
			return notRecorded(ctx.Err())
		}
	}
	if first != nil {
		return notRecorded(first)
	}
	return nil
}

// add puts events into groups, and starts sending if needed.
func (l *Log) add(events [][]byte) (groups []*group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		var g *group
		if n := len(l.waiting); n > 0 {
			g = l.waiting[n-1]
		}
		if g == nil || len(g.events) == groupEvents || g.bytes+len(e) > groupBytes {
			g = &group{done: make(chan struct{})}
			l.waiting = append(l.waiting, g)
		}
		g.events, g.bytes = append(g.events, e), g.bytes+len(e)
		if len(groups) == 0 || groups[len(groups)-1] != g {
			groups = append(groups, g)
		}
	}
	if !l.sending && len(l.waiting) > 0 {
		l.sending = true
		go l.send()
	}
	return groups
}

// send sends groups until none is waiting.
func (l *Log) send() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.sending = false
			l.mu.Unlock()
			return
		}
		g := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		g.err = l.publish(g)
		close(g.done)
	}
}

// publish sends a group, and sends it again if the acknowledgement does not arrive in time: an
// event that is in the trail twice counts once.
func (l *Log) publish(g *group) error {
	data := g.message()
	began := time.Now()
	var stored <-chan *jetstream.PubAck
	first, err := l.try(data)
	if err == nil {
		stored = first.Ok()
		l.again.Reset(max(againTime, 2*l.took))
		defer l.again.Stop()
		select {
		case <-stored:
			l.stored(data, began)
			return nil
		case err = <-first.Err():
		case <-l.again.C:
			err = jetstream.ErrAsyncPublishTimeout
		case <-l.conn.Closed():
			return nats.ErrConnectionClosed
		}
	}
	if !errors.Is(err, nats.ErrDisconnected) && !errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
		return advise(err)
	}
	second, err := l.try(data)
	if err != nil {
		return advise(err)
	}
	select {
	case <-stored: // the first one's acknowledgement was late
	case <-second.Ok():
	case err := <-second.Err():
		return advise(err)
	case <-l.conn.Closed():
		return nats.ErrConnectionClosed
	}
	l.stored(data, began)
	return nil
}

func (l *Log) try(data []byte) (jetstream.PubAckFuture, error) {
	l.conn.Settle(context.Background())
	msg := nats.NewMsg(l.subject)
	msg.Data = data
	return l.conn.PublishAsync(l.js, msg, jetstream.WithExpectStream(Stream.Name), jetstream.WithRetryAttempts(moveTries), jetstream.WithRetryWait(moveWait))
}

// stored records a stored message that was first sent at began.
func (l *Log) stored(data []byte, began time.Time) {
	l.took = time.Since(began)
	l.room.sent(len(data) + len(l.subject) + storedWith)
}

// message is an AuditEvent for a group of one, otherwise an AuditGroup.
func (g *group) message() []byte {
	if len(g.events) == 1 {
		return g.events[0]
	}
	data := make([]byte, 0, g.bytes+8*len(g.events))
	for _, e := range g.events {
		data = protowire.AppendTag(data, groupField, protowire.BytesType)
		data = protowire.AppendBytes(data, e)
	}
	return data
}

// eventsOf are the events of a message, marshalled.
func eventsOf(data []byte) [][]byte {
	var g auditv1.AuditGroup
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &g); err == nil && len(g.Events) > 0 {
		return g.Events
	}
	return [][]byte{data}
}

func notRecorded(err error) error {
	return fault.New(fault.Unavailable, "the audit trail cannot be written; try again shortly").Because(err)
}
