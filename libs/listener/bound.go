// Package listener is the layer between a socket and a door: it limits the number of
// connections and does TLS. Start at Bound and Load.
package listener

import (
	"net"
	"sync"
)

// Bound returns l with at most n connections, of which one address has at most half: an
// address may be a proxy, or a single client. Connections beyond that are closed at once. The
// kernel buffers at most maxUnsent bytes for each.
func Bound(l net.Listener, n int) net.Listener {
	return &bounded{Listener: l, places: newPlaces(n)}
}

type bounded struct {
	net.Listener
	*places
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := addressOf(c)
		if l.enter(address) {
			leaveLittle(c)
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.left(address) })}, nil
		}
		_ = c.Close()
	}
}

// counted is a connection that counts against the limit.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite closes one direction, so that the client can still read why it is refused.
func (c *counted) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// places is a limited number of slots, half of which one address may use.
type places struct {
	most int
	mu   sync.Mutex
	all  int
	from map[string]int // by address
}

func newPlaces(most int) *places { return &places{most: most, from: map[string]int{}} }

func (p *places) enter(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || p.from[address] >= p.most/2 {
		return false
	}
	p.all++
	p.from[address]++
	return true
}

func (p *places) left(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.from[address]--; p.from[address] == 0 {
		delete(p.from, address)
	}
}

// addressOf returns the address of a client, without its port.
func addressOf(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
