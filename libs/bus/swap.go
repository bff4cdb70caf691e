package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// swapTime is how long a connection whose NATS server has gone may take to find
// another one.
const swapTime = 500 * time.Millisecond

// Settle waits while a lost connection may be about to find another server, as when
// NATS servers are restarted one after the other: who sends at that moment waits for
// it. Once it has not been found in time, Settle waits for nobody until it is.
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

// answerTime is how long a request that may be made again waits for its answer before it
// is; then four times as long, for a disk may be slow. A server that is about to stop,
// and leads what is asked for, has taken it along.
const answerTime = 300 * time.Millisecond

// repeated makes a request that may be made again, and does so when the server went away
// before it answered, or whoever was asked behind it did. To wait for that answer would take
// all the time there is. The first answer to any of them counts: of a slow disk it comes when
// the request has been made again.
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

// publish sends a request, after another server was found where this one has just gone.
func (c *Conn) publish(ctx context.Context, subject, reply string, data []byte) error {
	err := c.nc.PublishRequest(subject, reply, data)
	if err != nil && !c.nc.IsClosed() {
		c.Settle(ctx)
		err = c.nc.PublishRequest(subject, reply, data)
	}
	return err
}

// server is one that this connection is to; its context ends when it goes away.
type server struct {
	ctx context.Context
	end context.CancelFunc
}

// unnoticed is how long a server may be gone before its silence is noticed.
const unnoticed = time.Minute

// nextServer ends the context of the server that has gone.
func (c *Conn) nextServer(why error) {
	gone := time.Now().Add(-time.Second) // what was on its way
	if errors.Is(why, nats.ErrStaleConnection) || errors.Is(why, errHung) {
		gone = gone.Add(-unnoticed)
	}
	c.gone.Store(gone.UnixNano())
	ctx, end := context.WithCancel(context.Background())
	if old := c.server.Swap(&server{ctx, end}); old != nil {
		old.end()
	}
}

// Gone is since when messages may have been missed, because the last server had gone.
func (c *Conn) Gone() time.Time { return time.Unix(0, c.gone.Load()) }

// Away reports whether the bus cannot be reached, and has not been for longer than it
// takes to find another server.
func (c *Conn) Away() bool {
	since := c.lost.Load()
	return !c.nc.IsConnected() && since != 0 && time.Since(time.Unix(0, since)) >= swapTime
}
