package bus

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// A NATS server that hangs keeps its connections open: nothing fails, and nothing
// arrives. A connection that has another server to go to leaves such a server after
// maxUnanswered (ADR 0094). One without another server waits for it.

const (
	// pingEvery is how often a connection asks its server for a sign of life.
	pingEvery = 250 * time.Millisecond
	// maxUnanswered is how long a server may send nothing, not even the answers to
	// three of those pings, before the connection leaves it.
	maxUnanswered = MaxSilence
	// maxPings is how many pings the only server may leave unanswered: those of 20 s.
	maxPings = int(20 * time.Second / pingEvery)
	// lookEvery is how often the silence of a server is measured.
	lookEvery = 50 * time.Millisecond
	// leftFor is how long a server that was left is not dialled again.
	leftFor = time.Second
	// dialTime bounds the way to a server, and then its greeting.
	dialTime = 2 * time.Second
)

// errHung is why a connection was lost that left its server.
var errHung = fmt.Errorf("the NATS server has sent nothing for %v", maxUnanswered)

// network dials the servers of a connection, counts what they send, and leaves one that
// hangs. It uses nothing that nats.go locks: a write to a server that hangs blocks with
// those locks held.
type network struct {
	dialer  nats.CustomDialer
	current atomic.Pointer[socket]
	// read counts the bytes that arrived, over all sockets.
	read atomic.Uint64
	left atomic.Pointer[departure]
	// hung is set when a server was left, until the loss of the connection is noted.
	hung atomic.Bool
	// others says that there is another server to go to.
	others atomic.Bool
}

// departure is a server that was left, and when.
type departure struct {
	address string
	at      time.Time
}

// socket is a connection to the server at an address.
type socket struct {
	net.Conn
	network *network
	address string
}

// Dial implements nats.CustomDialer.
func (n *network) Dial(network, address string) (net.Conn, error) {
	if left := n.left.Load(); left != nil && left.address == address && time.Since(left.at) < leftFor {
		return nil, errHung
	}
	conn, err := n.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn, network: n, address: address}
	n.current.Store(s)
	return s, nil
}

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.network.read.Add(uint64(n))
	return n, err
}

// leave closes the connection to a server that hangs; nats.go then finds another one.
func (s *socket) leave() {
	s.network.hung.Store(true)
	s.network.left.Store(&departure{s.address, time.Now()})
	_ = s.Close()
}

// watch leaves a server that hangs, if there is another one. It returns when the
// connection is closed.
func (c *Conn) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var at, left *socket
	var read uint64
	var silent time.Duration
	for looked := time.Now(); ; {
		select {
		case <-tick.C:
		case <-c.closed:
			return
		}
		now := time.Now()
		// Time in which this process stood still is not the server's silence.
		passed := min(now.Sub(looked), 2*lookEvery)
		looked = now
		if s, n := c.network.current.Load(), c.network.read.Load(); s != at || n != read {
			at, read, silent = s, n, 0
			continue
		}
		if silent += passed; silent >= maxUnanswered && at != left && c.network.others.Load() {
			left = at
			at.leave()
		}
	}
}

// lookForOthers notes whether there is another server: one that was configured or that the
// cluster announced, or another address of the same name.
func (c *Conn) lookForOthers() {
	servers := c.nc.Servers()
	others := len(servers) > 1
	if u, err := url.Parse(servers[0]); !others && err == nil && net.ParseIP(u.Hostname()) == nil {
		ctx, cancel := context.WithTimeout(context.Background(), dialTime)
		defer cancel()
		addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip4", u.Hostname())
		more, _ := net.DefaultResolver.LookupNetIP(ctx, "ip6", u.Hostname())
		others = len(addresses) > 1 || len(more) > 1 // one server may have an address of each kind
	}
	c.network.others.Store(others)
}
