package bustest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Regions are two NATS clusters joined by gateways: Home, whose servers have
// JetStream, and Away, a server without.
type Regions struct {
	Home, Away *Cluster
	links      []*link
}

// NewRegions starts two regions for the test.
func NewRegions(t testing.TB) *Regions {
	t.Helper()
	var r *Regions
	twice(t, "pairs of regions", func() bool {
		r = prepareRegions(t)
		r.Home.startAll()
		r.Away.startAll()
		return r.Home.led(election)
	}, func() {
		r.Home.stopAll()
		r.Away.stopAll()
	})
	Eventually(t, "the regions are joined", func() bool {
		for i := range r.Home.nodes {
			if r.Home.state(i).Gateways != 1 {
				return false
			}
		}
		return r.Away.state(0).Gateways == 1
	})
	return r
}

// prepareRegions plans the regions: every gateway is reached over a link.
func prepareRegions(t testing.TB) *Regions {
	t.Helper()
	r := &Regions{Home: prepare(t, 3), Away: prepare(t, 1)}
	plan := func(c *Cluster, name string) (remote string) {
		var at []string
		for _, n := range c.nodes {
			port := freePort(t)
			l := newLink(t, fmt.Sprintf("127.0.0.1:%d", port))
			r.links = append(r.links, l)
			n.name, n.cluster = name+n.name, name
			n.gateway = fmt.Sprintf("name: %s, listen: \"127.0.0.1:%d\", advertise: %q", name, port, l.address())
			at = append(at, "nats://"+l.address())
		}
		return fmt.Sprintf("{ name: %s, urls: %s }", name, list(at))
	}
	join := func(c *Cluster, remote string) {
		for _, n := range c.nodes {
			n.gateway = fmt.Sprintf("gateway { %s, gateways: [%s] }\n", n.gateway, remote)
		}
	}
	r.Away.nodes[0].dir = ""
	home, away := plan(r.Home, "home"), plan(r.Away, "away")
	join(r.Home, away)
	join(r.Away, home)
	return r
}

// Cut separates the regions until Mend.
func (r *Regions) Cut() {
	for _, l := range r.links {
		l.cut()
	}
}

// Mend lets the regions find each other again.
func (r *Regions) Mend() {
	for _, l := range r.links {
		l.mend()
	}
}

// link is a network connection that can be cut.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

func newLink(t testing.TB, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	one := &link{listener: l, to: to, conns: map[net.Conn]bool{}}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { one.carry(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); one.cut(); served.Wait() })
	return one
}

func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) carry(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	if !l.keep(in, out) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_, _ = in.Close(), out.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, in)
	delete(l.conns, out)
}

// keep records the two ends of a connection, unless the link is cut.
func (l *link) keep(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		l.conns[c] = true
	}
	return !l.away
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
	clear(l.conns)
}
