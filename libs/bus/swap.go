package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// swapTime is how long a connection that lost its NATS server may take to find another one.
const swapTime = 500 * time.Millisecond

// Settle waits while a lost connection may be about to find another server, as when NATS servers
// are restarted one after the other. Call it before sending. After swapTime without a server,
// Settle returns at once until there is one.
func (c *Conn) Settle(ctx context.Context) {
	if c.nc.IsConnected() {
		if c.lost.Load() != 0 {
			c.lost.Store(0)
		}
		return
	}
	c.lost.CompareAndSwap(0, time.Now().UnixNano())
	left := time.Until(time.Unix(0, c.lost.Load()).Add(swapTime))
	if left <= 0 {
		return
	}
	back := c.nc.StatusChanged(nats.CONNECTED)
	defer c.nc.RemoveStatusListener(back)
	if c.nc.IsConnected() {
		return
	}
	late := time.NewTimer(left)
	defer late.Stop()
	select {
	case <-back:
	case <-late.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}

// answerTime is how long a repeatable request waits for its answer before it is repeated. The next
// wait is four times as long, because a disk may be slow. A leader that stops loses the requests
// that it has received.
const answerTime = 300 * time.Millisecond

// repeated makes a repeatable request. It repeats the request if the server, or the leader behind
// it, went away before answering: waiting for that answer would use all the remaining time. The
// first answer to any of the requests counts, because a slow disk may answer after the repetition.
func repeated[T any](ctx context.Context, c *Conn, request func(context.Context) (T, error)) (T, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	again := time.NewTimer(0)
	defer again.Stop()
	for wait := answerTime; ; wait *= 4 {
		c.Settle(ctx)
		server := c.server.Load()
		go func() {
			value, err := request(ctx)
			select {
			case answers <- answer{value, err}:
			case <-ctx.Done():
			}
		}()
		again.Reset(wait)
		select {
		case a := <-answers:
			if a.err == nil || server.ctx.Err() == nil || ctx.Err() != nil {
				return a.value, a.err
			}
		case <-server.ctx.Done():
		case <-again.C:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// publish sends a request. If the server has just gone, it first waits for another one.
func (c *Conn) publish(ctx context.Context, subject, reply string, data []byte) error {
	err := c.nc.PublishRequest(subject, reply, data) // fault:request-twice
	if err != nil && !c.nc.IsClosed() {
		c.Settle(ctx)
		err = c.nc.PublishRequest(subject, reply, data)
	}
	return err
}

// server is a server of this connection; its context ends when the connection to it is lost.
type server struct {
	ctx context.Context
	end context.CancelFunc
}

// unnoticed is how long a server may be gone before its silence is noticed.
const unnoticed = time.Minute

// nextServer ends the context of the server that has gone.
func (c *Conn) nextServer(why error) {
	gone := time.Now().Add(-time.Second) // earlier, for messages in transit
	if errors.Is(why, nats.ErrStaleConnection) || errors.Is(why, errHung) {
		gone = gone.Add(-unnoticed)
	}
	c.gone.Store(gone.UnixNano())
	ctx, end := context.WithCancel(context.Background())
	if old := c.server.Swap(&server{ctx, end}); old != nil {
		old.end()
	}
}

// Gone is the time since which messages may have been missed, because the last server was lost.
func (c *Conn) Gone() time.Time { return time.Unix(0, c.gone.Load()) }

// Away reports whether the bus has been unreachable for longer than it takes to find another
// server.
func (c *Conn) Away() bool {
	since := c.lost.Load()
	return !c.nc.IsConnected() && since != 0 && time.Since(time.Unix(0, since)) >= swapTime
}
