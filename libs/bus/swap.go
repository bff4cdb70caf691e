package bus

import (
	"context"
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

// Away reports whether the bus cannot be reached, and has not been for longer than it
// takes to find another server.
func (c *Conn) Away() bool {
	since := c.lost.Load()
	return !c.nc.IsConnected() && since != 0 && time.Since(time.Unix(0, since)) >= swapTime
}
