package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	auditTTL   = 7 * 24 * time.Hour
	auditBytes = 512 << 20
	// auditRoom is kept for the events of calls that have begun when the stream
	// is found to be nearly full.
	auditRoom = auditBytes / 20
)

// AuditQuery is the method that the audit service answers questions on. It is
// none of MCP, so that no client reaches it.
const AuditQuery = "busbar/audit"

// auditStream keeps what the audit service has not written yet, and for a week
// what it has.
var auditStream = jetstream.StreamConfig{
	Name: "AUDIT", Description: "the audit trail on its way to the audit service", Subjects: []string{auditRoot + ">"},
	Storage: jetstream.FileStorage, MaxAge: auditTTL, MaxBytes: auditBytes, Duplicates: 2 * time.Minute,
	// Full means that edges hear so: nothing makes room but age.
	Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true,
}

// deadStream keeps messages that nobody could handle.
var deadStream = jetstream.StreamConfig{
	Name: "DLQ", Description: "messages that nobody could handle", Subjects: []string{deadRoot + ">"},
	Storage: jetstream.FileStorage, MaxAge: 30 * 24 * time.Hour, MaxBytes: 64 << 20, Discard: jetstream.DiscardOld,
}

// auditInFlight bounds the events of one log that wait for their
// acknowledgement.
const auditInFlight = 1024

// AuditLog puts events into the audit trail. It may be used from many
// goroutines: what they append at the same time travels together.
type AuditLog struct {
	conn    *Conn
	js      jetstream.JetStream
	subject string
}

// AuditLog returns the log of an edge, named as Caller.Edge.
func (c *Conn) AuditLog(edge string) (*AuditLog, error) {
	if err := ValidName(edge); err != nil {
		return nil, err
	}
	js, err := jetstream.New(c.nc, jetstream.WithPublishAsyncMaxPending(auditInFlight), jetstream.WithPublishAsyncTimeout(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return &AuditLog{conn: c, js: js, subject: auditSubject(edge)}, nil
}

// Append adds events and returns when all are safe: stored by NATS. After an error some may be; to append them again is
// right, since an event counts once. The error is a *fault.Error with reason
// Unavailable.
func (l *AuditLog) Append(ctx context.Context, events ...*auditv1.AuditEvent) error {
	acks := make([]jetstream.PubAckFuture, 0, len(events))
	var first error
	for _, e := range events {
		data, err := proto.Marshal(e)
		if err != nil {
			return notRecorded(err)
		}
		msg := nats.NewMsg(l.subject)
		msg.Data = data
		// A repetition of what is known to have failed is the caller's business.
		ack, err := l.js.PublishMsgAsync(msg, jetstream.WithMsgID(e.Id), jetstream.WithExpectStream(auditStream.Name), jetstream.WithRetryAttempts(0))
		if err != nil {
			first = err
			break
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			first = errors.Join(first, err)
		case <-l.conn.closed:
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

// Room returns nil when the trail takes events and has space for more than
// those of the calls that run.
func (l *AuditLog) Room(ctx context.Context) error {
	stream, err := l.conn.js.Stream(ctx, auditStream.Name)
	if err != nil {
		return notRecorded(err)
	}
	info := stream.CachedInfo()
	if limit := info.Config.MaxBytes; limit > 0 && info.State.Bytes > uint64(max(limit-auditRoom, limit/2)) {
		return notRecorded(fmt.Errorf("stream %s is nearly full: %d of %d bytes; is the audit service running?", auditStream.Name, info.State.Bytes, limit))
	}
	return nil
}

// NewCallID names a call, for Request.Id.
func NewCallID() string { return newID() }

func notRecorded(err error) error {
	return fault.New(fault.Unavailable, "the audit trail cannot be written; try again shortly").Because(err)
}
