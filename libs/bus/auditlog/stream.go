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

// streamBytes is the default size of the stream.
const streamBytes = 512 << 20

// Stream keeps the events that the audit service has not written yet; an acknowledged event is
// deleted. Nothing else is deleted, so if the stream is full, edges are told.
var Stream = jetstream.StreamConfig{
	Name: "AUDIT", Description: "the audit trail on its way to the audit service", Subjects: []string{subject.Audits},
	Storage: jetstream.FileStorage, Retention: jetstream.InterestPolicy, MaxBytes: streamBytes,
	Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
}

// readers is the consumer that all instances of the audit service share. It is created with the
// stream: with interest retention, a message that no consumer wants is not kept.
var readers = jetstream.ConsumerConfig{
	Durable: "audit-v1", Description: "writes the audit trail to its database",
	AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 8 * batchEvents,
}

// Ensure creates the stream and its consumer, or updates a stream of an earlier release, which kept
// events for a week after they were read. The retention is interest because NATS can change a
// stream from limits to interest in place, but not to a work queue, and no update can remove
// DenyPurge. The size and the replicas that an operator chose are kept.
//
// A stream with interest retention never exists without its consumer: it would acknowledge events
// and keep none. replicas applies if the stream is created.
func Ensure(ctx context.Context, conn *bus.Conn, replicas int) error {
	js := conn.JetStream()
	stream, err := js.Stream(ctx, Stream.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		fresh := Stream
		fresh.Retention, fresh.Replicas = jetstream.LimitsPolicy, replicas
		stream, err = js.CreateStream(ctx, fresh)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created in between
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
		// NATS 2.15 does not retry after a failed write.
		return fmt.Errorf("NATS does not store: %s (%w)", restartServer, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return fmt.Errorf("stream AUDIT does not answer: %s (%w)", restartServer, err)
	}
	return err
}

// restartServer is the advice if NATS runs but does not store. The server of "busbar dev" and
// "busbar stdio" restarts itself.
const restartServer = "if the disk of NATS was full, make room and then restart nats-server; in busbar dev it goes on by itself"

// Use is the kind of an event, which decides how much of the stream it may fill: a flood of reads
// must leave room for effects, and effects must leave room for their ends.
type Use int

const (
	// Read is the event of a finished call without an effect.
	Read Use = iota
	// Begin says that a call with an effect begins.
	Begin
	// End says how a call that has begun ended.
	End
)

// room is how many bytes of the stream may be used before such an event.
func (u Use) room(limit uint64) uint64 {
	switch u {
	case Read:
		return limit / 4 * 3
	case Begin:
		return limit / 10 * 9
	}
	return limit
}

// State is the fill level of the stream.
type State struct {
	// Bytes and Messages count the events that wait to be written down. Limit is the stream's limit
	// in bytes.
	Bytes, Messages, Limit uint64
}

// room is the last known state of the stream, and the amount sent since.
type room struct {
	mu    sync.Mutex
	state State
	mend  time.Time // not before
}

// storedWith is roughly how many bytes NATS stores besides a message's subject and data.
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
	return Ensure(ctx, l.conn, 1) // it exists; if it does not, package storage adds replicas later
}

// mendEvery is how often the configuration of the stream is corrected: an edge of an earlier
// release changes it back when it starts.
const mendEvery = 5 * time.Second

// State is the stream's state as of the last Look, with what this log sent since.
func (l *Log) State() State {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.state
}

// Left is how many more bytes of events of this use the stream accepts, as far as is known here.
func (l *Log) Left(u Use) int {
	s := l.State()
	if s.Limit == 0 {
		return math.MaxInt
	}
	return int(u.room(s.Limit)) - int(s.Bytes)
}

// Room returns nil if the stream has room for an event of this use, as far as is known here. It
// sends no request.
func (l *Log) Room(u Use) error {
	if l.Left(u) > 0 {
		return nil
	}
	s := l.State()
	return notRecorded(fmt.Errorf("stream %s is nearly full: %d of %d bytes wait to be read; is the audit service running?", Stream.Name, s.Bytes, s.Limit))
}
