package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
)

const (
	auditConsumer = "audit-v1"
	// An event is tried this often before it is put aside.
	auditTries = 10
	// A batch is complete with so many events, or so long after its first.
	auditBatch = 500
	auditWait  = 250 * time.Millisecond
	idleWait   = 2 * time.Second
	// What a reader that died had is given to another after this.
	auditAckWait = 30 * time.Second
)

// AuditReader reads the audit trail for whoever writes it down. All readers of
// a bus share the events. It is used by one goroutine.
type AuditReader struct {
	conn     *Conn
	ackWait  time.Duration
	consumer jetstream.Consumer
}

// AuditReader joins the readers of the trail. What a reader that died had comes
// to another after ackWait; zero is 30 s.
func (c *Conn) AuditReader(ackWait time.Duration) *AuditReader {
	if ackWait <= 0 {
		ackWait = auditAckWait
	}
	return &AuditReader{conn: c, ackWait: ackWait}
}

// AuditDelivery is one event as delivered. The same may come again, here or to
// another reader, unless it was acknowledged.
type AuditDelivery struct {
	Event *auditv1.AuditEvent

	conn  *Conn
	msg   jetstream.Msg
	tries uint64
}

// Next waits for a batch: up to 500 events, at most 250 ms after the first. An
// event that does not parse is tried again later and in the end put aside, and
// is never seen here. The error is ctx's.
func (r *AuditReader) Next(ctx context.Context) ([]*AuditDelivery, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		batch, err := r.fetch(ctx)
		if len(batch) > 0 {
			return batch, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			pause = 100 * time.Millisecond
			continue
		}
		r.conn.log.Warn("the audit trail cannot be read; trying on", "error", err)
		r.consumer = nil
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fetch asks for what there is, and takes no more than it returns: an event
// that waited here would count as lost in the end.
func (r *AuditReader) fetch(ctx context.Context) (batch []*AuditDelivery, err error) {
	if r.consumer == nil {
		if err := r.join(ctx); err != nil {
			return nil, err
		}
	}
	for _, want := range []struct {
		n    int
		wait time.Duration
	}{{1, idleWait}, {auditBatch - 1, auditWait}} {
		some, err := r.some(ctx, want.n, want.wait)
		if batch = append(batch, some...); err != nil || len(some) == 0 {
			return batch, err
		}
	}
	return batch, nil
}

// some returns up to n events, after wait at the latest. Those that are not for
// the caller are missing.
func (r *AuditReader) some(ctx context.Context, n int, wait time.Duration) (some []*AuditDelivery, err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	msgs, err := r.consumer.Fetch(n, jetstream.FetchContext(waiting))
	if err != nil {
		return nil, err
	}
	for msg := range msgs.Messages() {
		if d := r.delivery(ctx, msg); d != nil {
			some = append(some, d)
		}
	}
	if err := msgs.Error(); err != nil && waiting.Err() == nil {
		return some, err
	}
	return some, ctx.Err()
}

func (r *AuditReader) join(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.consumer, err = r.conn.js.CreateOrUpdateConsumer(ctx, auditStream.Name, jetstream.ConsumerConfig{
		Durable: auditConsumer, Description: "writes the audit trail to its database",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: r.ackWait, MaxDeliver: -1, MaxAckPending: 8 * auditBatch,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", auditStream.Name, err)
	}
	return nil
}

// delivery reads a message; nil when it is not for the caller.
func (r *AuditReader) delivery(ctx context.Context, msg jetstream.Msg) *AuditDelivery {
	d := &AuditDelivery{Event: &auditv1.AuditEvent{}, conn: r.conn, msg: msg}
	if meta, err := msg.Metadata(); err == nil {
		d.tries = meta.NumDelivered
	}
	err := proto.Unmarshal(msg.Data(), d.Event)
	if err == nil && d.Event.Id == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		d.Reject(ctx, err)
		return nil
	}
	return d
}

// Ack says that an event is written down. Should this be lost, the event comes
// again.
func (d *AuditDelivery) Ack() {
	if err := d.msg.Ack(); err != nil {
		d.conn.log.Debug("an audit event was not acknowledged", "error", err)
	}
}

// Working says that the event is still being written, so that no other reader
// gets it.
func (d *AuditDelivery) Working() { _ = d.msg.InProgress() }

// Reject gives back an event that is at fault itself. It comes again a little
// later; after ten tries it is put aside, where people find it with the reason.
func (d *AuditDelivery) Reject(ctx context.Context, why error) {
	if d.tries < auditTries {
		_ = d.msg.NakWithDelay(min(10*time.Millisecond<<d.tries, time.Second))
		return
	}
	dead := nats.NewMsg(deadSubject("audit"))
	dead.Data = d.msg.Data()
	dead.Header.Set("Busbar-Subject", d.msg.Subject())
	dead.Header.Set("Busbar-Tries", strconv.FormatUint(d.tries, 10))
	dead.Header.Set("Busbar-Error", header(why.Error()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := d.conn.js.PublishMsg(ctx, dead, jetstream.WithMsgID("audit "+d.msg.Headers().Get(jetstream.MsgIDHeader))); err != nil {
		d.conn.log.Error("an audit event that cannot be written cannot be put aside; trying on", "error", err, "because", why)
		_ = d.msg.NakWithDelay(10 * time.Second)
		return
	}
	d.conn.log.Error("an audit event cannot be written; it is in stream "+deadStream.Name, "because", why)
	_ = d.msg.Term()
}

// header makes a text fit a message's header.
func header(s string) string {
	b := []byte(s[:min(len(s), 500)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = ' '
		}
	}
	return string(b)
}

// Release gives an event back unwritten, to whichever reader comes next.
func (d *AuditDelivery) Release() { _ = d.msg.Nak() }
