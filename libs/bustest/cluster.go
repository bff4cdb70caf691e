package bustest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is a cluster of NATS servers with JetStream.
type Cluster struct {
	t       testing.TB
	options []*server.Options
	nodes   []*server.Server
}

// NewCluster starts a cluster of n servers for the test.
func NewCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	// A port that was free may have been given to somebody else meanwhile.
	for range 2 {
		c := prepare(t, n)
		c.startAll()
		if c.led() {
			return c
		}
		for i := range c.nodes {
			c.Stop(i)
		}
	}
	t.Fatal("two NATS clusters have no leader after 30 s each")
	return nil
}

// prepare makes the options of a cluster.
func prepare(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t, nodes: make([]*server.Server, n)}
	var routes []*url.URL
	for i := range n {
		o := &server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: freePort(t), NoSigs: true, NoLog: true, MaxPayload: 1 << 20,
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 8 << 30, JetStreamMaxMemory: 64 << 20, DisableShortFirstPing: true,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: freePort(t)},
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", o.Cluster.Port)})
		c.options = append(c.options, o)
	}
	for i := range n {
		c.options[i].Routes = routes
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Stop(i)
		}
	})
	return c
}

func (c *Cluster) startAll() {
	c.t.Helper()
	for i := range c.nodes {
		c.Start(i)
	}
}

// Start starts a server that is not running, with the data it had.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatalf("NATS server %d: %v", i, err)
	}
	go s.Start()
	c.nodes[i] = s
}

// Stop stops a server.
func (c *Cluster) Stop(i int) {
	if s := c.nodes[i]; s != nil {
		c.nodes[i] = nil
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Ready waits until the servers that run have a leader.
func (c *Cluster) Ready() {
	c.t.Helper()
	if !c.led() {
		c.t.Fatal("the NATS cluster has no leader after 30 s")
	}
}

// led is Ready, and reports whether it came to that.
func (c *Cluster) led() bool {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, s := range c.nodes {
			if s != nil && s.ReadyForConnections(time.Second) && s.JetStreamIsLeader() {
				return true
			}
		}
	}
	return false
}

// Holds returns the server that holds a stream of one replica, -1 for none.
func (c *Cluster) Holds(stream string) int {
	for i, s := range c.nodes {
		if s == nil {
			continue
		}
		if a, err := s.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT); err == nil && s.JetStreamIsStreamLeader(a.GetName(), stream) {
			return i
		}
	}
	return -1
}

// URL is that of all servers.
func (c *Cluster) URL() string {
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
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
