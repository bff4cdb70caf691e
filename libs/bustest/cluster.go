package bustest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest/beside"
)

// Cluster is a cluster of NATS servers with JetStream.
type Cluster struct {
	t     testing.TB
	nodes []*node
}

// node is a server of a cluster.
type node struct {
	name         string
	port, routes int
	dir          string // for JetStream; empty without it
	cluster      string
	gateway      string // its configuration
	*beside.Server
}

// election is how long servers may take to choose a leader before others are started instead.
const election = 30 * time.Second

// NewCluster starts a cluster of n servers for the test.
func NewCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	var c *Cluster
	twice(t, "NATS clusters", func() bool {
		c = prepare(t, n)
		c.startAll()
		return c.led(election)
	}, func() { c.stopAll() })
	return c
}

// twice starts servers on free ports, and tries again if another program has taken a port
// meanwhile.
func twice(t testing.TB, what string, start func() (led bool), stop func()) {
	t.Helper()
	for range 2 {
		if start() {
			return
		}
		stop()
	}
	t.Fatalf("two %s have no leader after %v each", what, election)
}

// prepare plans a cluster.
func prepare(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for i := range n {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("n%d", i), port: freePort(t), routes: freePort(t), dir: t.TempDir(), cluster: "test"})
	}
	t.Cleanup(c.stopAll)
	return c
}

func (c *Cluster) startAll() {
	c.t.Helper()
	for i := range c.nodes {
		c.Start(i)
	}
}

func (c *Cluster) stopAll() {
	for i := range c.nodes {
		c.Stop(i)
	}
}

// Start starts a server that is not running, with the data it had.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	var routes []string
	for _, o := range c.nodes {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", o.routes))
	}
	n := c.nodes[i]
	conf := fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\ncluster { name: %s, listen: \"127.0.0.1:%d\", routes: %s }\n%s",
		n.name, n.port, n.cluster, n.routes, list(routes), n.gateway)
	if n.dir != "" {
		conf += fmt.Sprintf("jetstream { store_dir: %q, max_mem: 64MB, max_file: 8GB }\n", n.dir)
	}
	var err error
	if n.Server, err = beside.Start(beside.Config{Conf: conf}, serverLog()); err != nil {
		c.t.Fatalf("NATS server %d: %v", i, err)
	}
}

// Stop stops a server.
func (c *Cluster) Stop(i int) {
	n := c.nodes[i]
	if n.Server == nil {
		return
	}
	if err := n.Server.Stop(); err != nil {
		c.t.Errorf("stop NATS server %d: %v", i, err)
	}
	n.Server = nil
}

// Ready waits until the running servers have a leader, and each is connected to all others: before
// that it cannot reach the servers of a stream. The leader must also know all servers: it places
// streams only on those.
func (c *Cluster) Ready() {
	c.t.Helper()
	if !c.led(Patience) {
		c.t.Fatalf("the NATS cluster has no leader after %v", Patience)
	}
}

// led is Ready with a time limit, and reports whether it succeeded.
func (c *Cluster) led(within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if c.joined() {
			return true
		}
	}
	return false
}

// joined is led without waiting.
func (c *Cluster) joined() (leads bool) {
	running := 0
	for _, n := range c.nodes {
		if n.Server != nil {
			running++
		}
	}
	for i, n := range c.nodes {
		s := c.state(i)
		if n.Server != nil && (!s.Ready || s.Routes < running-1) {
			return false
		}
		leads = leads || s.Leads && s.Peers >= running
	}
	return leads
}

// state is a server's own report, empty if it does not run.
func (c *Cluster) state(i int) beside.State {
	c.t.Helper()
	n := c.nodes[i]
	if n.Server == nil {
		return beside.State{}
	}
	s, err := n.State()
	if err != nil {
		c.t.Fatalf("NATS server %d: %v", i, err)
	}
	return s
}

// Holds returns the server that holds a stream of one replica, -1 for none.
func (c *Cluster) Holds(stream string) int {
	c.t.Helper()
	for i, n := range c.nodes {
		if n.Server == nil {
			continue
		}
		holds, err := n.Holds(stream)
		if err != nil {
			c.t.Fatalf("NATS server %d: %v", i, err)
		}
		if holds {
			return i
		}
	}
	return -1
}

// URL lists all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, n := range c.nodes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", n.port))
	}
	return strings.Join(urls, ",")
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
