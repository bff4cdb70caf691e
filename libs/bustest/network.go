package bustest

import (
	"errors"
	"net"
	"sync"
)

// Network is between one connection and its NATS server; it is a bus.Config's Dialer. A
// test takes it away and gives it back.
type Network struct {
	mu         sync.Mutex
	line       *line
	away, mute bool
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
	return n.line, nil
}

// Cut ends the connection, and lets none be made until Mend.
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

// Mute loses what is sent over the connection there is.
func (n *Network) Mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute = true
}

// Hold keeps back what is sent and received over the connection there is, as a server that
// hangs does, until release or the end of the connection. One made meanwhile is free.
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

// wait returns when the line is not held, and says whether it is mute.
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
