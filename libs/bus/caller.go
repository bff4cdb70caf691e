package bus

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// DefaultTimeout bounds a call whose context has no deadline.
//
//limit:time a call, unless `Tool.Timeout` says otherwise | `deadline_exceeded`
const DefaultTimeout = 30 * time.Second

// Limits of one answer.
const (
	// MaxResult is the largest result a call may have, in bytes.
	//limit:message a result | `result_too_large`
	MaxResult = wire.MaxResult
	// maxQueued limits the frames that wait for a slow reader of one call. Beyond it, progress and
	// logs are dropped; beyond twice as many, the call is dropped.
	maxQueued = 1024
)

// Caller makes calls and collects their answers: one subscription for all answers, and a table of
// the calls that wait.
type Caller struct {
	conn *Conn
	edge string
	// service is the service that makes the calls; empty for an edge.
	service string
	answers []*nats.Subscription
	// delivered counts the frames that were handed to their calls or discarded.
	delivered atomic.Uint64

	mu      sync.Mutex
	waiting map[string]*exchange
}

// exchange is one call in flight.
type exchange struct {
	mu sync.Mutex
	// reply and stream are the subjects of the call that uses this exchange; stream is empty for a
	// call without one.
	reply, stream string
	queue         []arrival
	skipped       uint32 // frames dropped since the last one in queue
	overflow      bool
	wake          chan struct{}
	timer         *time.Timer
}

// waits reports whether unread frames are queued.
func (x *exchange) waits() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.queue) > 0
}

// arrival is a frame, and the number of frames dropped here before it.
type arrival struct {
	msg     *nats.Msg
	skipped uint32
}

var exchanges = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &exchange{wake: make(chan struct{}, 1), timer: t}
}}

// NewCaller makes the caller of an edge and starts collecting answers. Close it before the
// connection.
func NewCaller(conn *Conn) (*Caller, error) {
	c := newCaller(conn)
	kept, live := subject.FramesOf(c.edge)
	return c, c.collect(subject.Replies(c.edge), kept, live)
}

// NewGatewayCaller is NewCaller for a service, which calls only the Gateway, so it listens to
// nothing else.
func NewGatewayCaller(conn *Conn, service string) (*Caller, error) {
	c := newCaller(conn)
	c.service = service
	return c, c.collect(subject.ReplyTo(service, c.edge, "*"))
}

// to is the subject of a request for any instance, reply the subject of its answer.
func (c *Caller) to(service, method string) string {
	if c.service != "" {
		return subject.FromService(c.service, method)
	}
	return subject.Call(service, method)
}

func (c *Caller) reply(service, id string) string {
	if c.service != "" {
		return subject.ReplyTo(c.service, c.edge, id)
	}
	return subject.Reply(service, c.edge, id)
}

// cancel tells the instance that runs a call that nobody is waiting for it.
func (c *Caller) cancel(service, id, reason string) {
	if c.service != "" {
		c.conn.cancelAt(subject.CancelFrom(c.service), id, reason)
		return
	}
	c.conn.Cancel(service, id, reason)
}

func newCaller(conn *Conn) *Caller {
	return &Caller{conn: conn, edge: NewID(), waiting: map[string]*exchange{}}
}

// Edge is the caller's name on the bus.
func (c *Caller) Edge() string { return c.edge }

func (c *Caller) collect(subjects ...string) error {
	for _, s := range subjects {
		sub, err := c.conn.nc.Subscribe(s, c.deliver)
		if err != nil {
			return wire.NotSent(err)
		}
		// The answers of all calls share these; so their limit is the sum of the limits of all
		// calls, not the default of one subscription.
		if err := sub.SetPendingLimits(-1, 256<<20); err != nil {
			return err
		}
		c.answers = append(c.answers, sub)
	}
	return nil
}

// Close stops collecting. Calls in flight end as PeerLost.
func (c *Caller) Close() error {
	for _, sub := range c.answers {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
	}
	return nil
}

// deliver hands a frame to its call. It must not block: the answers of all calls pass through it.
func (c *Caller) deliver(msg *nats.Msg) {
	defer c.delivered.Add(1)
	at := msg.Subject
	if kept, live := subject.KeptOf(at); live {
		at = kept
	}
	c.mu.Lock()
	x := c.waiting[at]
	c.mu.Unlock()
	if x == nil {
		return // late: its caller is gone
	}
	if x.put(at, msg) {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// put queues a frame. It returns false if the frame belongs to the call that used the exchange
// before.
func (x *exchange) put(at string, msg *nats.Msg) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.reply != at && x.stream != at:
		return false
	case len(x.queue) >= maxQueued && isNotification(msg.Data):
		x.skipped++
	case len(x.queue) < 2*maxQueued:
		x.queue = append(x.queue, arrival{msg, x.skipped})
		x.skipped = 0
	default:
		x.overflow = true
	}
	return true
}

// use prepares the exchange for a call, or for none if reply is empty.
func (x *exchange) use(reply, stream string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.queue)
	x.reply, x.stream, x.queue, x.skipped, x.overflow = reply, stream, x.queue[:0], 0, false
}

// expect queues the messages that arrive on these subjects, until forget; stream may be empty.
func (c *Caller) expect(reply, stream string) *exchange {
	x := exchanges.Get().(*exchange)
	x.use(reply, stream)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[reply] = x
	if stream != "" {
		c.waiting[stream] = x
	}
	return x
}

func (c *Caller) forget(x *exchange) {
	c.mu.Lock()
	delete(c.waiting, x.reply)
	if x.stream != "" {
		delete(c.waiting, x.stream)
	}
	c.mu.Unlock()
	x.timer.Stop()
	x.use("", "")
	select {
	case <-x.wake:
	default:
	}
	exchanges.Put(x)
}

// Replies are the messages that come on one subject.
type Replies struct {
	caller *Caller
	x      *exchange
}

// Expect queues the replies to a message that is not a call, until Close. The subject must be one
// of this caller's (subject.Replies).
func (c *Caller) Expect(reply string) *Replies { return &Replies{c, c.expect(reply, "")} }

// Next waits for a message. The error is the error of ctx.
func (r *Replies) Next(ctx context.Context) (*nats.Msg, error) {
	for {
		r.x.mu.Lock()
		if len(r.x.queue) > 0 {
			msg := r.x.queue[0].msg
			r.x.queue = slices.Delete(r.x.queue, 0, 1)
			r.x.mu.Unlock()
			return msg, nil
		}
		r.x.mu.Unlock()
		select {
		case <-r.x.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close forgets the subject; later messages are discarded.
func (r *Replies) Close() { r.caller.forget(r.x) }

// Hear also delivers the frames on another edge's subjects to the calls of this caller. stop ends
// that.
func (c *Caller) Hear(subjects ...string) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, at := range subjects {
		one, err := c.conn.Subscribe(at, c.deliver)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}
