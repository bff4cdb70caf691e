package bus

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
)

// A NATS server that hangs keeps its connections open: nothing fails, and nothing arrives. A
// connection that can reach another server leaves a hanging one after maxUnanswered (ADR 0094).
// Otherwise it waits. A server behind a slow line gets more time.

const (
	// maxUnanswered is how long a server may send nothing, not even answers to pings, before the
	// connection leaves it.
	//limit:silence silence of a NATS server that was pinged | its connections move to another server
	maxUnanswered = flow.ServerSilence
	// pingAfter is the silence of a server after which it is pinged, and the interval of further
	// pings.
	pingAfter = maxUnanswered / 3
	// leftFor is how long a server that was left is not dialled again.
	leftFor = time.Second
	// slowest is the assumed lowest speed of a line in bytes per second: a server gets more time to
	// answer a ping that is queued behind other data. maxBehind is the longest extra time.
	slowest   = 1 << 20
	maxBehind = 2 * time.Second
	// piece is how much is written at once, so that slow progress is seen.
	piece = 64 << 10
	// dialTime limits connecting to a server, and then the wait for its greeting.
	dialTime = flow.DialTime
)

// errHung is the reason for the loss of a connection that left a hanging server.
var errHung = fmt.Errorf("the NATS server has sent nothing for %v", maxUnanswered)

// network dials the servers of a connection, counts what they send, and leaves one that
// hangs. It uses nothing that nats.go locks: a write to a server that hangs blocks with
// those locks held.
type network struct {
	dialer  nats.CustomDialer
	current atomic.Pointer[socket]
	// read counts the bytes that arrived, over all sockets; last is when, as the time since
	// begun.
	read  atomic.Uint64
	last  atomic.Int64
	begun time.Time
	// sent counts the written bytes; writing is set during a write. through is when the slowest
	// line would have transmitted them all, as the time since begun.
	sent    atomic.Uint64
	writing atomic.Bool
	through atomic.Int64
	left    atomic.Pointer[departure]
	// hung is set when a server was left, until the loss of the connection is noted.
	hung atomic.Bool
	// others is set if there is another server to go to.
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
	s.network.last.Store(int64(time.Since(s.network.begun)))
	return n, err
}

// Write implements net.Conn. nats.go writes one thing at a time.
func (s *socket) Write(b []byte) (sent int, err error) {
	n := s.network
	n.writing.Store(true)
	defer n.writing.Store(false)
	for sent < len(b) && err == nil {
		var took int
		took, err = s.Conn.Write(b[sent:min(len(b), sent+piece)])
		sent += took
		n.sent.Add(uint64(took))
		now := time.Since(n.begun)
		through := max(now, time.Duration(n.through.Load())) + time.Duration(took)*time.Second/slowest
		n.through.Store(int64(min(through, now+maxBehind)))
	}
	return sent, err
}

// patience is how long the server may be silent after a ping that is sent now.
func (n *network) patience() time.Duration {
	return maxUnanswered + max(0, time.Duration(n.through.Load())-time.Since(n.begun))
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
	n := c.network
	timer := time.NewTimer(pingAfter)
	defer timer.Stop()
	var at, left *socket
	var read, sent uint64
	var silent, patience time.Duration
	for {
		select {
		case <-timer.C:
		case <-c.closed:
			return
		}
		s, sofar := n.current.Load(), n.read.Load()
		switch {
		case s != at || sofar != read:
			at, read, silent = s, sofar, 0
			heard := time.Duration(n.last.Load())
			timer.Reset(min(max(0, heard+pingAfter-time.Since(n.begun)), pingAfter))
			continue
		case !n.others.Load() || s == left:
		case n.writing.Load() && n.sent.Load() != sent:
			silent = 0 // it accepted a write that had to wait
			c.watching.Go(c.ping)
		default:
			if silent == 0 {
				patience = n.patience()
			}
			// This counts one interval even if it is late: time in which this process was suspended
			// is not the server's silence.
			if silent += pingAfter; silent >= patience {
				left = s
				s.leave()
			} else {
				c.watching.Go(c.ping)
			}
		}
		sent = n.sent.Load()
		timer.Reset(pingAfter)
	}
}

// ping makes the server send something. It may block for as long as the connection is stuck.
func (c *Conn) ping() {
	ctx, cancel := context.WithTimeout(context.Background(), maxUnanswered)
	defer cancel()
	if c.nc.IsConnected() {
		_ = c.nc.FlushWithContext(ctx)
	}
}

// lookForOthers notes whether there is another server: one that was configured or that the
// cluster announced, or another address of the same name.
func (c *Conn) lookForOthers() {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var servers [][]netip.AddrPort
	for _, server := range c.nc.Servers() {
		servers = append(servers, resolve(ctx, server))
	}
	c.network.others.Store(several(servers))
}

// resolve returns the addresses of a server by its URL. It returns none while the name of the
// server is unknown.
func resolve(ctx context.Context, server string) (all []netip.AddrPort) {
	u, err := url.Parse(server)
	if err != nil {
		return nil
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	for _, address := range addresses {
		all = append(all, netip.AddrPortFrom(address.Unmap(), uint16(port)))
	}
	return all
}

// several reports whether names, by their addresses, lead to more than one server. One server
// may have several names, and an address of each kind. A name without an address counts as
// another server, which is away.
func several(servers [][]netip.AddrPort) bool {
	for i, addresses := range servers {
		four := 0
		for _, address := range addresses {
			if address.Addr().Is4() {
				four++
			}
		}
		if four > 1 || len(addresses)-four > 1 {
			return true
		}
		for _, other := range servers[:i] {
			if !slices.ContainsFunc(addresses, func(a netip.AddrPort) bool { return slices.Contains(other, a) }) {
				return true
			}
		}
	}
	return false
}
