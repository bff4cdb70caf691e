package door

import (
	"context"
	"log/slog"
	"sync"
)

// MaxSockets bounds the WebSockets that one edge keeps open.
//
//limit:connection WebSockets of an edge | more are refused
const MaxSockets = 10_000

// Connections are the connections that an edge keeps open beyond a request: WebSockets,
// and streams of events for clients that wait. The HTTP server forgets a connection that
// it has given away, so whoever stops the server has to end these too.
type Connections struct {
	log *slog.Logger
	// ctx is the context of all of them. It ends when the remaining ones are cut off.
	ctx context.Context
	cut context.CancelFunc

	mu            sync.Mutex
	open, sockets int
	ended         chan struct{} // closed when none is open; nil until somebody waits
}

// NewConnections makes an empty set.
func NewConnections(log *slog.Logger) *Connections {
	c := &Connections{log: log}
	c.ctx, c.cut = context.WithCancel(context.Background())
	return c
}

// Open is the number of open connections.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *Connections) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
}

func (c *Connections) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 && c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// enterSocket is enter for a WebSocket. The number of WebSockets is limited.
func (c *Connections) enterSocket() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sockets >= MaxSockets {
		return false
	}
	c.open, c.sockets = c.open+1, c.sockets+1
	return true
}

func (c *Connections) leaveSocket() {
	c.mu.Lock()
	c.sockets--
	c.mu.Unlock()
	c.leave()
}

// End waits until no connection is open. When ctx ends first, the remaining ones are cut
// off, and their calls in flight are cancelled. Tell them to end first; see
// SocketConfig.Closing.
func (c *Connections) End(ctx context.Context) {
	c.mu.Lock()
	if c.open == 0 {
		c.mu.Unlock()
		return
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	ended := c.ended
	c.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		c.cut()
		<-ended
	}
}
