package auditlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
)

const (
	// An event is tried this often before it is put aside.
	tries = 10
	// A batch is complete with this many events, or this long after its first.
	batchEvents = 500
	batchTime   = 250 * time.Millisecond
	// fetchMessages limits the messages of one request: the number of events in them is known only
	// after they have arrived.
	fetchMessages = 64
	// buryAgain is the wait before another attempt to put an event aside.
	buryAgain = 10 * time.Second
	// idleWait is how long one request waits for a first message. The library reserves a tenth of
	// it, at most a second, for messages that are on their way at the end; a lost one would be
	// delivered again only after ackWait.
	idleWait = 10 * time.Second
	// Events of a reader that died are given to another after this time.
	ackWait = 30 * time.Second
)

// Reader reads the audit trail for the audit service. All readers of a bus share the events. It is
// used by one goroutine.
type Reader struct {
	conn     *bus.Conn
	ackWait  time.Duration
	consumer *nats.Subscription
	// unburied is the time of the last log line about an event that cannot be put aside.
	unburied time.Time
}

// NewReader joins the readers of the trail. Events of a reader that died go to another one after
// wait; zero means 30 s.
func NewReader(conn *bus.Conn, wait time.Duration) *Reader {
	if wait <= 0 {
		wait = ackWait
	}
	return &Reader{conn: conn, ackWait: wait}
}

// Delivery is one delivered event. It may be delivered again, here or to another reader, until all
// events of its message are acknowledged.
type Delivery struct {
	Event *auditv1.AuditEvent

	data []byte
	from *message
}

// message is the message that contained some events. It is settled when each of them is.
type message struct {
	reader *Reader
	msg    *nats.Msg
	seq    uint64 // in the stream
	tries  uint64
	left   int // events that are not settled
	// again is set if an event, and so the message, must be delivered again.
	again bool
	delay time.Duration
	// worked is when the bus was last told that the message is being worked on.
	worked time.Time
}

// Next waits for a batch: 500 events, or all that arrive within 250 ms of the first; more if a
// message holds more. An event that does not parse is retried later, finally put aside, and never
// returned. The error is the error of ctx.
func (r *Reader) Next(ctx context.Context) ([]*Delivery, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		batch, err := r.fetch(ctx)
		if len(batch) > 0 {
			return batch, nil
		}
		if ctx.Err() != nil {
			r.leave()
			return nil, ctx.Err()
		}
		if err == nil {
			pause = 100 * time.Millisecond
			continue
		}
		r.conn.Log().Warn("the audit trail cannot be read; trying on", "error", err)
		r.leave()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *Reader) leave() {
	if r.consumer != nil {
		_ = r.consumer.Unsubscribe()
		r.consumer = nil
	}
}

// fetch requests the available messages and receives no more than it returns: an event that waited
// here would finally count as lost.
func (r *Reader) fetch(ctx context.Context) (batch []*Delivery, err error) {
	if r.consumer == nil {
		if err := r.join(ctx); err != nil {
			return nil, err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	batch, largest, err := r.some(ctx, 1, nats.Context(waiting))
	if err != nil || largest == 0 {
		return batch, err
	}
	for deadline := time.Now().Add(batchTime); len(batch) < batchEvents; {
		n := min(fetchMessages, max(1, (batchEvents-len(batch))/largest))
		left := time.Until(deadline)
		if left < time.Millisecond {
			break
		}
		// This is short enough to need no further limit, and late messages are waited for.
		some, most, err := r.some(ctx, n, nats.MaxWait(left))
		if batch = append(batch, some...); err != nil || most == 0 {
			return batch, err
		}
		largest = max(largest, most)
	}
	return batch, nil
}

// some returns the events of up to n messages, and how many the largest one has. Events that the
// caller may not see are left out.
func (r *Reader) some(ctx context.Context, n int, how nats.PullOpt) (some []*Delivery, most int, err error) {
	msgs, err := r.consumer.Fetch(n, how)
	for _, msg := range msgs {
		events := r.deliveries(ctx, msg)
		some, most = append(some, events...), max(most, len(events), 1)
	}
	if err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return some, most, err
	}
	return some, most, ctx.Err()
}

func (r *Reader) join(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Edges create the consumer with the stream. A different wait needs the right to change it.
	if r.ackWait != ackWait {
		cfg := readers
		cfg.AckWait = r.ackWait
		_, err = r.conn.JetStream().CreateOrUpdateConsumer(ctx, Stream.Name, cfg)
	}
	if err == nil {
		r.consumer, err = r.conn.Pull(Stream.Name, readers.Durable)
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %w", Stream.Name, err)
	}
	return nil
}

// deliveries reads a message. Events that the caller may not see are left out.
func (r *Reader) deliveries(ctx context.Context, msg *nats.Msg) (all []*Delivery) {
	m := &message{reader: r, msg: msg, worked: time.Now()}
	if meta, err := msg.Metadata(); err == nil {
		m.seq, m.tries = meta.Sequence.Stream, meta.NumDelivered
	}
	events := eventsOf(msg.Data)
	m.left = len(events)
	for _, data := range events {
		d := &Delivery{data: data, from: m}
		var err error
		if d.Event, err = event(data, msg.Subject); err != nil {
			d.reject(ctx, err, errors.Is(err, errOtherEdge))
			continue
		}
		all = append(all, d)
	}
	return all
}

// settled counts a settled event of the message. After the last one it acknowledges the message.
func (m *message) settled() {
	if m.left--; m.left > 0 {
		return
	}
	if m.again {
		_ = m.msg.NakWithDelay(m.delay)
		return
	}
	if err := m.msg.Ack(); err != nil {
		m.reader.conn.Log().Debug("audit events were not acknowledged", "error", err)
	}
}

// comeAgain makes the bus deliver the message again after a while.
func (m *message) comeAgain(after time.Duration) {
	m.again, m.delay = true, max(m.delay, after)
}

// Ack says that an event is written down. If the acknowledgement is lost, the event is delivered
// again.
func (d *Delivery) Ack() { d.from.settled() }

// Working says that the event is still being written, so that it is not given to another reader.
func (d *Delivery) Working() {
	if time.Since(d.from.worked) < 100*time.Millisecond {
		return // already said for another event of the message
	}
	d.from.worked = time.Now()
	_ = d.from.msg.InProgress()
}

// Release gives an event back unwritten, for any reader.
func (d *Delivery) Release() {
	d.from.comeAgain(0)
	d.from.settled()
}

// Reject gives back an event that is itself faulty. It is delivered again a little later; after ten
// tries it is put aside with the reason (see Dead).
func (d *Delivery) Reject(ctx context.Context, why error) { d.reject(ctx, why, false) }

// reject puts an event aside at once if final is set, because retrying is useless.
func (d *Delivery) reject(ctx context.Context, why error, final bool) {
	m := d.from
	defer m.settled()
	if m.tries < tries && !final {
		m.comeAgain(min(10*time.Millisecond<<m.tries, time.Second))
		return
	}
	log := m.reader.conn.Log()
	if err := d.bury(ctx, why); err != nil {
		m.comeAgain(buryAgain)
		if time.Since(m.reader.unburied) >= buryAgain { // one line for many waiting events
			m.reader.unburied = time.Now()
			log.Error("an audit event that cannot be written cannot be put aside in stream "+DeadStream.Name+"; it stays in stream "+Stream.Name+" and is tried again", "error", err, "because", why)
		}
		return
	}
	log.Error("an audit event cannot be written; it is in stream "+DeadStream.Name+", from where \"busbar audit redeliver\" brings it back", "because", why)
}

// header makes a text fit into a message header.
func header(s string) string {
	b := []byte(s[:min(len(s), 500)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = ' '
		}
	}
	return string(b)
}
