package bus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
)

const (
	// An event is tried this often before it is put aside.
	auditTries = 10
	// A batch is complete with so many events, or so long after its first.
	auditBatch = 500
	auditWait  = 250 * time.Millisecond
	// auditFetch bounds the messages that are asked for at once: how many events
	// they hold is known when they are here.
	auditFetch = 64
	// idleWait is how long one request waits for a first message. The library
	// leaves a tenth of it, at most a second, for what is on its way at the end:
	// that would come again after ackWait only.
	idleWait = 10 * time.Second
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
// another reader, unless it was acknowledged, and with it the others of its
// message.
type AuditDelivery struct {
	Event *auditv1.AuditEvent

	data []byte
	from *auditMessage
}

// auditMessage is what events were delivered in. It is settled when each of them
// is.
type auditMessage struct {
	conn  *Conn
	msg   jetstream.Msg
	seq   uint64 // in the stream
	tries uint64
	left  int // events that are not settled
	// again says that some event has to come again, and with it the message.
	again bool
	delay time.Duration
	// worked is when the bus heard last that somebody works on it.
	worked time.Time
}

// Next waits for a batch: 500 events, or those that come within 250 ms of the
// first; more if a message holds more. An event that does not parse is tried
// again later and in the end put aside, and is never seen here. The error is
// ctx's.
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
	waiting, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	batch, largest, err := r.some(ctx, 1, jetstream.FetchContext(waiting))
	if err != nil || largest == 0 {
		return batch, err
	}
	for deadline := time.Now().Add(auditWait); len(batch) < auditBatch; {
		n := min(auditFetch, max(1, (auditBatch-len(batch))/largest))
		left := time.Until(deadline)
		if left < time.Millisecond {
			break
		}
		// So short that it need not be cut shorter; and what comes late is waited for.
		some, most, err := r.some(ctx, n, jetstream.FetchMaxWait(left))
		if batch = append(batch, some...); err != nil || most == 0 {
			return batch, err
		}
		largest = max(largest, most)
	}
	return batch, nil
}

// some returns the events of up to n messages, and how many the largest one has.
// Those that are not for the caller are missing.
func (r *AuditReader) some(ctx context.Context, n int, how jetstream.FetchOpt) (some []*AuditDelivery, most int, err error) {
	msgs, err := r.consumer.Fetch(n, how)
	if err != nil {
		return nil, 0, err
	}
	for msg := range msgs.Messages() {
		events := r.deliveries(ctx, msg)
		some, most = append(some, events...), max(most, len(events), 1)
	}
	if err := msgs.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return some, most, err
	}
	return some, most, ctx.Err()
}

func (r *AuditReader) join(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// A stream that an earlier release made keeps what was read until this.
	if err := r.conn.ensureAudit(ctx); err != nil {
		return err
	}
	cfg := auditReaders
	cfg.AckWait = r.ackWait
	r.consumer, err = r.conn.js.CreateOrUpdateConsumer(ctx, auditStream.Name, cfg)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", auditStream.Name, err)
	}
	return nil
}

// deliveries reads a message. What is not for the caller is missing.
func (r *AuditReader) deliveries(ctx context.Context, msg jetstream.Msg) (all []*AuditDelivery) {
	m := &auditMessage{conn: r.conn, msg: msg, worked: time.Now()}
	if meta, err := msg.Metadata(); err == nil {
		m.seq, m.tries = meta.Sequence.Stream, meta.NumDelivered
	}
	events := auditEvents(msg.Data())
	m.left = len(events)
	for _, data := range events {
		d := &AuditDelivery{Event: &auditv1.AuditEvent{}, data: data, from: m}
		err := proto.Unmarshal(data, d.Event)
		if err == nil && d.Event.Id == "" {
			err = errors.New("it has no id")
		}
		switch {
		case err != nil:
			d.Reject(ctx, err)
			continue
		case d.Event.Edge != m.edge():
			// Who may publish as one edge speaks for no other.
			d.reject(ctx, fmt.Errorf("it says that it is of edge %q", d.Event.Edge), true)
			continue
		}
		all = append(all, d)
	}
	return all
}

// edge is whose subject the message came on.
func (m *auditMessage) edge() string { return strings.TrimPrefix(m.msg.Subject(), auditRoot) }

// settled counts an event of the message, and tells the bus about the last one.
func (m *auditMessage) settled() {
	if m.left--; m.left > 0 {
		return
	}
	if m.again {
		_ = m.msg.NakWithDelay(m.delay)
		return
	}
	if err := m.msg.Ack(); err != nil {
		m.conn.log.Debug("audit events were not acknowledged", "error", err)
	}
}

// comeAgain has the message delivered again after a while.
func (m *auditMessage) comeAgain(after time.Duration) {
	m.again, m.delay = true, max(m.delay, after)
}

// Ack says that an event is written down. Should this be lost, the event comes
// again.
func (d *AuditDelivery) Ack() { d.from.settled() }

// Working says that the event is still being written, so that no other reader
// gets it.
func (d *AuditDelivery) Working() {
	if time.Since(d.from.worked) < 100*time.Millisecond {
		return // said for another of its message
	}
	d.from.worked = time.Now()
	_ = d.from.msg.InProgress()
}

// Release gives an event back unwritten, to whichever reader comes next.
func (d *AuditDelivery) Release() {
	d.from.comeAgain(0)
	d.from.settled()
}

// Reject gives back an event that is at fault itself. It comes again a little
// later; after ten tries it is put aside, where people find it with the reason.
func (d *AuditDelivery) Reject(ctx context.Context, why error) { d.reject(ctx, why, false) }

// reject puts an event aside at once if it will not get better.
func (d *AuditDelivery) reject(ctx context.Context, why error, final bool) {
	m := d.from
	defer m.settled()
	if m.tries < auditTries && !final {
		m.comeAgain(min(10*time.Millisecond<<m.tries, time.Second))
		return
	}
	dead := nats.NewMsg(deadSubject("audit"))
	dead.Data = d.data
	dead.Header.Set("Busbar-Subject", m.msg.Subject())
	dead.Header.Set("Busbar-Tries", strconv.FormatUint(m.tries, 10))
	dead.Header.Set("Busbar-Error", header(why.Error()))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	sum := sha256.Sum256(d.data)
	id := fmt.Sprintf("audit %d %x", m.seq, sum[:8])
	if _, err := m.conn.js.PublishMsg(ctx, dead, jetstream.WithMsgID(id)); err != nil {
		m.conn.log.Error("an audit event that cannot be written cannot be put aside; trying on", "error", err, "because", why)
		m.comeAgain(10 * time.Second)
		return
	}
	m.conn.log.Error("an audit event cannot be written; it is in stream "+deadStream.Name, "because", why)
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
