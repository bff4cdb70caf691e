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
	conn       net.Conn
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
	n.conn, n.mute = conn, false
	return &line{conn, n}, nil
}

// Cut ends the connection, and lets none be made until Mend.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = true
	_ = n.conn.Close()
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

type line struct {
	net.Conn
	n *Network
}

func (l *line) Write(b []byte) (int, error) {
	l.n.mu.Lock()
	mute := l.n.mute
	l.n.mu.Unlock()
	if mute {
		return len(b), nil
	}
	return l.Conn.Write(b)
}
