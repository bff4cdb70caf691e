package auditlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// streamBytes bounds the stream where nobody set another size.
const streamBytes = 512 << 20

// Stream keeps what the audit service has not written yet: what it
// acknowledges leaves. Nothing else makes room, so that full means that edges
// hear so.
var Stream = jetstream.StreamConfig{
	Name: "AUDIT", Description: "the audit trail on its way to the audit service", Subjects: []string{subject.Audits},
	Storage: jetstream.FileStorage, Retention: jetstream.InterestPolicy, MaxBytes: streamBytes,
	Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
}

// readers is the consumer that all instances of the audit service share. It
// is made with the stream: with interest retention, what nobody is interested in
// is not kept.
var readers = jetstream.ConsumerConfig{
	Durable: "audit-v1", Description: "writes the audit trail to its database",
	AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 8 * batchEvents,
}

// Ensure creates the stream and its consumer, or brings a stream of an
// earlier release, which kept for a week what was read, to what it is now. NATS
// changes a stream's retention from limits to interest in place, but never to
// that of a work queue, and lets no update take DenyPurge back: that is why it is
// interest. The size and the replicas that an operator chose are kept.
//
// At no moment is there a stream with interest retention and without its
// consumer: it would acknowledge events and keep none.
// replicas are those of a stream that is made.
func Ensure(ctx context.Context, conn *bus.Conn, replicas int) error {
	js := conn.JetStream()
	stream, err := js.Stream(ctx, Stream.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		fresh := Stream
		fresh.Retention, fresh.Replicas = jetstream.LimitsPolicy, replicas
		stream, err = js.CreateStream(ctx, fresh)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made in between
			stream, err = js.Stream(ctx, Stream.Name)
		}
	}
	if err != nil {
		return err
	}
	_, err = js.CreateConsumer(ctx, Stream.Name, readers)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return err
	}
	want := stream.CachedInfo().Config
	want.Description, want.Subjects, want.Retention, want.MaxAge = Stream.Description, Stream.Subjects, Stream.Retention, Stream.MaxAge
	want.Discard, want.DenyDelete, want.DenyPurge = Stream.Discard, true, true
	if reflect.DeepEqual(want, stream.CachedInfo().Config) {
		return nil
	}
	_, err = js.UpdateStream(ctx, want)
	return err
}

// advise says what to do about an error of the stream.
func advise(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("stream AUDIT is not there: start an edge, which makes it (%w)", err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no NATS server takes events for stream AUDIT: \"busbar doctor\" says why (%w)", err)
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum bytes"):
		return fmt.Errorf("stream AUDIT is full: is the audit service running? (%w)", err)
	case errors.As(err, &api) && api.Code >= 500:
		// What NATS 2.15 could not write once it does not try again.
		return fmt.Errorf("NATS does not store: %s (%w)", restartServer, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return fmt.Errorf("stream AUDIT does not answer: %s (%w)", restartServer, err)
	}
	return err
}

// restartServer is what to do where NATS does not store although it runs. The server of "busbar dev" and
// "busbar stdio" restarts itself.
const restartServer = "if the disk of NATS was full, make room and then restart nats-server; in busbar dev it goes on by itself"

// Use is what an event is about, which decides how much of the stream it
// may fill: a flood of reads must leave room for effects, and effects for the
// ends of those that have begun.
type Use int

const (
	// Read is an event of a call without an effect, which is over.
	Read Use = iota
	// Begin says that a call with an effect begins.
	Begin
	// End says how a call that has begun ended.
	End
)

// room is how much of the stream may be full before such an event.
func (u Use) room(limit uint64) uint64 {
	switch u {
	case Read:
		return limit / 4 * 3
	case Begin:
		return limit / 10 * 9
	}
	return limit
}

// State is what the stream has.
type State struct {
	// Bytes and Messages wait to be written down, Limit bytes at most.
	Bytes, Messages, Limit uint64
}

// room is the last state of the stream, and what was sent since.
type room struct {
	mu    sync.Mutex
	state State
	mend  time.Time // not before
}

// storedWith is about what NATS stores besides a message's subject and data.
const storedWith = 100

func (r *room) sent(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Bytes += uint64(bytes)
	r.state.Messages++
}

// Look asks the stream for its state. An error means that it cannot be asked.
func (l *Log) Look(ctx context.Context) error {
	l.conn.Settle(ctx)
	stream, err := l.conn.JetStream().Stream(ctx, Stream.Name)
	if err != nil {
		return notRecorded(advise(err))
	}
	info := stream.CachedInfo()
	l.room.mu.Lock()
	l.room.state = State{Bytes: info.State.Bytes, Messages: info.State.Msgs, Limit: uint64(max(info.Config.MaxBytes, 0))}
	mend := (info.Config.Retention != Stream.Retention || info.State.Consumers == 0) && time.Now().After(l.room.mend)
	if mend {
		l.room.mend = time.Now().Add(mendEvery)
	}
	l.room.mu.Unlock()
	if !mend {
		return nil
	}
	if info.State.Consumers == 0 {
		l.conn.Log().Error("the consumer of the audit trail was removed; it is made again, and what was recorded meanwhile may be lost", "consumer", readers.Durable)
	}
	return Ensure(ctx, l.conn, 1) // it is there; if not, package storage puts it on more servers
}

// mendEvery is how often a stream that is not as it should be is brought to that:
// an edge of an earlier release changes it back when it starts.
const mendEvery = 5 * time.Second

// State is the stream's state as of the last Look, with what this log sent since.
func (l *Log) State() State {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.state
}

// Left is how many bytes of events of such a use the stream takes, as far as is known here.
func (l *Log) Left(u Use) int {
	s := l.State()
	if s.Limit == 0 {
		return math.MaxInt
	}
	return int(u.room(s.Limit)) - int(s.Bytes)
}

// Room returns nil when the stream has room for an event of such a use, as far
// as is known here. It asks nobody.
func (l *Log) Room(u Use) error {
	if l.Left(u) > 0 {
		return nil
	}
	s := l.State()
	return notRecorded(fmt.Errorf("stream %s is nearly full: %d of %d bytes wait to be read; is the audit service running?", Stream.Name, s.Bytes, s.Limit))
}
