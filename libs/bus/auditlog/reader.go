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
	// A batch is complete with so many events, or so long after its first.
	batchEvents = 500
	batchTime   = 250 * time.Millisecond
	// fetchMessages bounds the messages that are asked for at once: how many events
	// they hold is known when they are here.
	fetchMessages = 64
	// buryAgain is how long an event waits that cannot be put aside either.
	buryAgain = 10 * time.Second
	// idleWait is how long one request waits for a first message. The library
	// leaves a tenth of it, at most a second, for what is on its way at the end:
	// that would come again after ackWait only.
	idleWait = 10 * time.Second
	// Events of a reader that died are given to another after this time.
	ackWait = 30 * time.Second
)

// Reader reads the audit trail for whoever writes it down. All readers of
// a bus share the events. It is used by one goroutine.
type Reader struct {
	conn     *bus.Conn
	ackWait  time.Duration
	consumer *nats.Subscription
	// unburied is when the log last said that an event cannot be put aside.
	unburied time.Time
}

// NewReader joins the readers of the trail. Events of a reader that died come to another after
// wait; zero is 30 s.
func NewReader(conn *bus.Conn, wait time.Duration) *Reader {
	if wait <= 0 {
		wait = ackWait
	}
	return &Reader{conn: conn, ackWait: wait}
}

// Delivery is one event as delivered. The same may come again, here or to
// another reader, unless it was acknowledged, and with it the others of its
// message.
type Delivery struct {
	Event *auditv1.AuditEvent

	data []byte
	from *message
}

// message is what events were delivered in. It is settled when each of them
// is.
type message struct {
	reader *Reader
	msg    *nats.Msg
	seq    uint64 // in the stream
	tries  uint64
	left   int // events that are not settled
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

// fetch asks for what there is, and takes no more than it returns: an event
// that waited here would count as lost in the end.
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
		// So short that it need not be cut shorter; and what comes late is waited for.
		some, most, err := r.some(ctx, n, nats.MaxWait(left))
		if batch = append(batch, some...); err != nil || most == 0 {
			return batch, err
		}
		largest = max(largest, most)
	}
	return batch, nil
}

// some returns the events of up to n messages, and how many the largest one has.
// Those that are not for the caller are missing.
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
	// Edges make it, with the stream. Another wait than theirs takes the right to.
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

// settled counts an event of the message, and tells the bus about the last one.
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

// comeAgain has the message delivered again after a while.
func (m *message) comeAgain(after time.Duration) {
	m.again, m.delay = true, max(m.delay, after)
}

// Ack says that an event is written down. Should this be lost, the event comes
// again.
func (d *Delivery) Ack() { d.from.settled() }

// Working says that the event is still being written, so that no other reader
// gets it.
func (d *Delivery) Working() {
	if time.Since(d.from.worked) < 100*time.Millisecond {
		return // said for another of its message
	}
	d.from.worked = time.Now()
	_ = d.from.msg.InProgress()
}

// Release gives an event back unwritten, to whichever reader comes next.
func (d *Delivery) Release() {
	d.from.comeAgain(0)
	d.from.settled()
}

// Reject gives back an event that is at fault itself. It comes again a little
// later; after ten tries it is put aside, where people find it with the reason.
func (d *Delivery) Reject(ctx context.Context, why error) { d.reject(ctx, why, false) }

// reject puts an event aside at once if it will not get better.
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
		if time.Since(m.reader.unburied) >= buryAgain { // one line of the many events that wait
			m.reader.unburied = time.Now()
			log.Error("an audit event that cannot be written cannot be put aside in stream "+DeadStream.Name+"; it stays in stream "+Stream.Name+" and is tried again", "error", err, "because", why)
		}
		return
	}
	log.Error("an audit event cannot be written; it is in stream "+DeadStream.Name+", from where \"busbar audit redeliver\" brings it back", "because", why)
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
