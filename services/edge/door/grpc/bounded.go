package grpc

import (
	"net"
	"sync"
)

// maxConnections bounds the connections of one edge. One address has at most half
// of them: a proxy may stand there, and so may one client.
const maxConnections = 1000

// bounded is a listener that closes connections beyond its bound at once.
type bounded struct {
	net.Listener

	mu   sync.Mutex
	all  int
	from map[string]int // by address
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := c.RemoteAddr().String()
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		if l.enter(address) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.left(address) })}, nil
		}
		_ = c.Close()
	}
}

func (l *bounded) enter(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxConnections || l.from[address] >= maxConnections/2 {
		return false
	}
	l.all++
	l.from[address]++
	return true
}

func (l *bounded) left(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[address]--; l.from[address] == 0 {
		delete(l.from, address)
	}
}

// counted is one of the connections.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
