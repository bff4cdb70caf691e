package bus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// auditBytes bounds the stream where nobody set another size.
const auditBytes = 512 << 20

// auditStream keeps what the audit service has not written yet: what it
// acknowledges leaves. Nothing else makes room, so that full means that edges
// hear so.
var auditStream = jetstream.StreamConfig{
	Name: "AUDIT", Description: "the audit trail on its way to the audit service", Subjects: []string{auditRoot + ">"},
	Storage: jetstream.FileStorage, Retention: jetstream.InterestPolicy, MaxBytes: auditBytes,
	Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
}

// auditReaders is the consumer that all instances of the audit service share. It
// is made with the stream: with interest retention, what nobody is interested in
// is not kept.
var auditReaders = jetstream.ConsumerConfig{
	Durable: "audit-v1", Description: "writes the audit trail to its database",
	AckPolicy: jetstream.AckExplicitPolicy, AckWait: auditAckWait, MaxDeliver: -1, MaxAckPending: 8 * auditBatch,
}

// ensureAudit creates the stream and its consumer, or brings a stream of an
// earlier release, which kept for a week what was read, to what it is now. NATS
// changes a stream's retention from limits to interest in place, but never to
// that of a work queue, and lets no update take DenyPurge back: that is why it is
// interest. The size and the replicas that an operator chose are kept.
//
// At no moment is there a stream with interest retention and without its
// consumer: it would acknowledge events and keep none.
func (c *Conn) ensureAudit(ctx context.Context) error {
	stream, err := c.js.Stream(ctx, auditStream.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		fresh := auditStream
		fresh.Retention = jetstream.LimitsPolicy
		stream, err = c.js.CreateStream(ctx, fresh)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made in between
			stream, err = c.js.Stream(ctx, auditStream.Name)
		}
	}
	if err != nil {
		return err
	}
	_, err = c.js.CreateConsumer(ctx, auditStream.Name, auditReaders)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerExists) {
		return err
	}
	want := stream.CachedInfo().Config
	want.Description, want.Subjects, want.Retention, want.MaxAge = auditStream.Description, auditStream.Subjects, auditStream.Retention, auditStream.MaxAge
	want.Discard, want.DenyDelete, want.DenyPurge = auditStream.Discard, true, true
	if reflect.DeepEqual(want, stream.CachedInfo().Config) {
		return nil
	}
	_, err = c.js.UpdateStream(ctx, want)
	return err
}

// advise says what to do about an error of the stream.
func advise(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("stream AUDIT is not there: start an edge, which makes it (%w)", err)
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum bytes"):
		return fmt.Errorf("stream AUDIT is full: is the audit service running? (%w)", err)
	case errors.As(err, &api) && api.Code >= 500:
		// What NATS 2.15 could not write once it does not try again.
		return fmt.Errorf("NATS does not store: if its disk is full, free space and then restart nats-server (%w)", err)
	}
	return err
}

// AuditUse is what an event is about, which decides how much of the stream it
// may fill: a flood of reads must leave room for effects, and effects for the
// ends of those that have begun.
type AuditUse int

const (
	// AuditRead is an event of a call without an effect, which is over.
	AuditRead AuditUse = iota
	// AuditBegin says that a call with an effect begins.
	AuditBegin
	// AuditEnd says how a call that has begun ended.
	AuditEnd
)

// room is how much of the stream may be full before such an event.
func (u AuditUse) room(limit uint64) uint64 {
	switch u {
	case AuditRead:
		return limit / 4 * 3
	case AuditBegin:
		return limit / 10 * 9
	}
	return limit
}

// AuditState is what the stream has.
type AuditState struct {
	// Bytes and Messages wait to be written down, Limit bytes at most.
	Bytes, Messages, Limit uint64
}

// auditRoom is the last state of the stream, and what was sent since.
type auditRoom struct {
	mu    sync.Mutex
	state AuditState
	mend  time.Time // not before
}

// storedWith is about what NATS stores besides a message's subject and data.
const storedWith = 100

func (r *auditRoom) sent(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Bytes += uint64(bytes)
	r.state.Messages++
}

// Look asks the stream for its state. An error means that it cannot be asked.
func (l *AuditLog) Look(ctx context.Context) error {
	stream, err := l.conn.js.Stream(ctx, auditStream.Name)
	if err != nil {
		return notRecorded(advise(err))
	}
	info := stream.CachedInfo()
	l.room.mu.Lock()
	l.room.state = AuditState{Bytes: info.State.Bytes, Messages: info.State.Msgs, Limit: uint64(max(info.Config.MaxBytes, 0))}
	mend := (info.Config.Retention != auditStream.Retention || info.State.Consumers == 0) && time.Now().After(l.room.mend)
	if mend {
		l.room.mend = time.Now().Add(auditMend)
	}
	l.room.mu.Unlock()
	if !mend {
		return nil
	}
	if info.State.Consumers == 0 {
		l.conn.log.Error("the consumer of the audit trail was removed; it is made again, and what was recorded meanwhile may be lost", "consumer", auditReaders.Durable)
	}
	return l.conn.ensureAudit(ctx)
}

// auditMend is how often a stream that is not as it should be is brought to that:
// an edge of an earlier release changes it back when it starts.
const auditMend = 5 * time.Second

// State is the stream's state as of the last Look, with what this log sent since.
func (l *AuditLog) State() AuditState {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	return l.room.state
}

// Room returns nil when the stream has room for an event of such a use, as far
// as is known here. It asks nobody.
func (l *AuditLog) Room(u AuditUse) error {
	s := l.State()
	if s.Limit == 0 || s.Bytes < u.room(s.Limit) {
		return nil
	}
	return notRecorded(fmt.Errorf("stream %s is nearly full: %d of %d bytes wait to be read; is the audit service running?", auditStream.Name, s.Bytes, s.Limit))
}
