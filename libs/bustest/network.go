package bustest

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Network stands between one connection and its NATS server; it is a Dialer for bus.Config. A test
// can cut it and restore it.
type Network struct {
	mu         sync.Mutex
	line       *line
	away, mute bool
	rate       int // bytes a second; 0 for as fast as it goes
}

// Dial implements nats.CustomDialer.
func (n *Network) Dial(network, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, errors.New("the network is away")
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	open := make(chan struct{})
	close(open)
	n.line, n.mute = &line{Conn: conn, n: n, open: open, closed: make(chan struct{})}, false
	if n.rate > 0 {
		n.line.Conn = narrow(conn, n.rate)
	}
	return n.line, nil
}

// Narrow limits later connections to sending rate bytes per second. The data waiting to be sent is
// limited to the size of a socket buffer.
func (n *Network) Narrow(rate int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = rate
}

// narrowed is a connection whose other end receives slowly.
type narrowed struct {
	net.Conn
	waiting chan []byte
	closed  chan struct{}
	once    sync.Once
}

const (
	// piece is how much a narrow connection sends at once, socketRoom how much waits for that.
	piece      = 16 << 10
	socketRoom = 2 << 20
)

func narrow(conn net.Conn, rate int) net.Conn {
	c := &narrowed{Conn: conn, waiting: make(chan []byte, socketRoom/piece), closed: make(chan struct{})}
	go func() {
		due := time.Now()
		for {
			select {
			case b := <-c.waiting:
				if now := time.Now(); due.Before(now) {
					due = now
				}
				due = due.Add(time.Duration(len(b)) * time.Second / time.Duration(rate))
				select {
				case <-time.After(time.Until(due)):
				case <-c.closed:
					return
				}
				if _, err := c.Conn.Write(b); err != nil {
					_ = c.Close()
				}
			case <-c.closed:
				return
			}
		}
	}()
	return c
}

func (c *narrowed) Write(b []byte) (sent int, err error) {
	for len(b) > 0 {
		part := slices.Clone(b[:min(piece, len(b))])
		select {
		case c.waiting <- part:
		case <-c.closed:
			return sent, net.ErrClosed
		}
		b, sent = b[len(part):], sent+len(part)
	}
	return sent, nil
}

func (c *narrowed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Cut ends the connection, and refuses new ones until Mend.
func (n *Network) Cut() {
	n.mu.Lock()
	n.away = true
	line := n.line
	n.mu.Unlock()
	_ = line.Close()
}

// Mend lets connections be made again.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = false
}

// Mute discards all data sent over the present connection.
func (n *Network) Mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = true
}

// Hold holds back all data of the present connection in both directions, like a server that hangs,
// until release or the end of the connection. Connections made meanwhile are not affected.
func (n *Network) Hold() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := make(chan struct{})
	n.line.open = open
	return sync.OnceFunc(func() { close(open) })
}

type line struct {
	net.Conn
	n      *Network
	open   chan struct{} // closed unless the line is held
	once   sync.Once
	closed chan struct{}
}

func (l *line) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

// wait waits until the line is not held, and reports whether it is mute.
func (l *line) wait() (mute bool) {
	l.n.mu.Lock()
	open, mute := l.open, l.n.mute
	l.n.mu.Unlock()
	select {
	case <-open:
	case <-l.closed:
	}
	return mute
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.wait()
	return n, err
}

func (l *line) Write(b []byte) (int, error) {
	if l.wait() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}
