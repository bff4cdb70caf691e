package bustest

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Regions are two NATS clusters joined by gateways: Home, whose servers have
// JetStream, and Away, a server without.
type Regions struct {
	Home, Away *Cluster
	links      []*link
}

// NewRegions starts them.
func NewRegions(t testing.TB) *Regions {
	t.Helper()
	r := &Regions{}
	join := func(c *Cluster, name string) *server.RemoteGatewayOpts {
		remote := &server.RemoteGatewayOpts{Name: name}
		for _, o := range c.options {
			l := newLink(t)
			r.links = append(r.links, l)
			o.ServerName = name + o.ServerName
			o.Cluster.Name = name
			o.Gateway = server.GatewayOpts{Name: name, Host: "127.0.0.1", Port: freePort(t), Advertise: l.address()}
			l.to = fmt.Sprintf("127.0.0.1:%d", o.Gateway.Port)
			remote.URLs = append(remote.URLs, &url.URL{Scheme: "nats", Host: l.address()})
		}
		return remote
	}
	r.Home, r.Away = prepare(t, 3), prepare(t, 1)
	home, away := join(r.Home, "home"), join(r.Away, "away")
	for _, o := range r.Home.options {
		o.Gateway.Gateways = []*server.RemoteGatewayOpts{away}
	}
	for _, o := range r.Away.options {
		o.Gateway.Gateways = []*server.RemoteGatewayOpts{home}
		o.JetStream = false
	}
	r.Home.startAll()
	r.Away.startAll()
	r.Home.Ready()
	Eventually(t, "the regions are joined", func() bool {
		return r.Away.nodes[0].NumOutboundGateways() == 1 && r.Home.nodes[0].NumOutboundGateways() == 1
	})
	return r
}

// Cut has no region hear the other; Mend ends that.
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

func newLink(t testing.TB) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	one := &link{listener: l, conns: map[net.Conn]bool{}}
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

// keep notes the two ends of a connection, unless the link is cut.
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
