package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Timing of one call.
const (
	// DefaultTimeout bounds a call whose context has no deadline.
	DefaultTimeout = 30 * time.Second
	// HopShave is taken off the deadline at each hop, so that the side that
	// knows most about a timeout answers first.
	HopShave = 20 * time.Millisecond
	// MinRemaining is the least time worth starting a call with.
	MinRemaining = 100 * time.Millisecond
	// FirstAlive is how long after receipt a service that has not sent a frame
	// says it is alive, AliveEvery how often it does so from then on.
	FirstAlive = 200 * time.Millisecond
	AliveEvery = 250 * time.Millisecond
	// MaxSilence is how long a caller waits for any frame, two missed signs of
	// life and half of a third, before it makes sure that none is on its way.
	MaxSilence = 750 * time.Millisecond
)

// Limits of one answer.
const (
	// MaxResult is the largest result a call may have, in bytes.
	MaxResult = 16 << 20
	// maxQueued bounds the frames waiting for a slow reader of one call. Beyond
	// it progress and logs are dropped; beyond twice as many, the call.
	maxQueued = 1024
)

// Caller makes calls and collects their answers: one subscription for all of
// them, and a table of who waits for what.
type Caller struct {
	conn *Conn
	edge string
	// subs are all subscriptions, answers those whose messages are frames.
	subs, answers []*nats.Subscription
	// delivered counts the frames that were handed to their calls, or to nobody.
	delivered atomic.Uint64

	mu        sync.Mutex
	waiting   map[string]*exchange
	mailboxes map[string]*Mailbox // by token
}

// exchange is one call in flight.
type exchange struct {
	mu sync.Mutex
	// reply and stream are the subjects of the call that uses this exchange; the
	// latter is empty for one without a stream.
	reply, stream string
	queue         []arrival
	skipped       uint32 // frames dropped since the last one in queue
	overflow      bool
	wake          chan struct{}
	timer         *time.Timer
}

// arrival is a frame, and how many before it were dropped here.
type arrival struct {
	msg     *nats.Msg
	skipped uint32
}

var exchanges = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &exchange{wake: make(chan struct{}, 1), timer: t}
}}

// NewCaller starts collecting answers, for an edge. Close it before the
// connection.
func NewCaller(conn *Conn) (*Caller, error) {
	c := newCaller(conn)
	if err := c.collect(replySubjects(c.edge), streamSubjects(c.edge), liveSubjects(c.edge)); err != nil {
		return nil, err
	}
	posts, err := conn.nc.Subscribe(messageSubject(c.edge), c.take)
	if err != nil {
		return nil, publishFault(err)
	}
	c.subs = append(c.subs, posts)
	return c, nil
}

// NewGatewayCaller is NewCaller for a service, which calls nothing but the
// Gateway and so needs to hear nobody else.
func NewGatewayCaller(conn *Conn) (*Caller, error) {
	c := newCaller(conn)
	return c, c.collect(replySubject(Gateway, c.edge, "*"))
}

func newCaller(conn *Conn) *Caller {
	return &Caller{conn: conn, edge: newID(), waiting: map[string]*exchange{}, mailboxes: map[string]*Mailbox{}}
}

func (c *Caller) collect(subjects ...string) error {
	for _, subject := range subjects {
		sub, err := c.conn.nc.Subscribe(subject, c.deliver)
		if err != nil {
			return publishFault(err)
		}
		// The answers of all calls share these; their bound is the sum of those of
		// the calls, not the default of one.
		if err := sub.SetPendingLimits(-1, 256<<20); err != nil {
			return err
		}
		c.subs, c.answers = append(c.subs, sub), append(c.answers, sub)
	}
	return nil
}

// Close stops collecting. Calls in flight end as PeerLost.
func (c *Caller) Close() error {
	for _, sub := range c.subs {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
	}
	return nil
}

// deliver hands a frame to the call it belongs to. It must not block: every
// call's answers pass here.
func (c *Caller) deliver(msg *nats.Msg) {
	defer c.delivered.Add(1)
	subject := msg.Subject
	if rest, live := strings.CutPrefix(subject, liveRoot); live {
		subject = eventRoot + rest
	}
	c.mu.Lock()
	x := c.waiting[subject]
	c.mu.Unlock()
	if x == nil {
		return // late: its caller is gone
	}
	if x.put(subject, msg) {
		select {
		case x.wake <- struct{}{}:
		default:
		}
	}
}

// put queues a frame. It reports false when the frame is of the call that used
// the exchange before.
func (x *exchange) put(subject string, msg *nats.Msg) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.reply != subject && x.stream != subject:
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

// use readies the exchange for a call, or with "" for none.
func (x *exchange) use(reply, stream string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.queue)
	x.reply, x.stream, x.queue, x.skipped, x.overflow = reply, stream, x.queue[:0], 0, false
}

// Check asks the service whether it takes calls.
func (c *Caller) Check(ctx context.Context, service string) error {
	_, err := c.Call(ctx, service, &busv1.Request{Method: selfCheck}, nil)
	return err
}

func (c *Caller) forget(reply, stream string, x *exchange) {
	c.mu.Lock()
	delete(c.waiting, reply)
	if stream != "" {
		delete(c.waiting, stream)
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

func (c *Caller) cancel(service, id, reason string) {
	data, err := proto.Marshal(&busv1.Cancel{Id: id, Reason: reason})
	if err == nil {
		err = c.conn.nc.Publish(cancelSubject(service), data)
	}
	if err != nil {
		c.conn.log.Debug("cancel not sent", "service", service, "error", err)
	}
}
