// Servers runs NATS servers for libs/bustest, which controls it by net/rpc over standard input and
// output. It ends when its standard input ends.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/busbar-mcp/busbar/libs/bustest/beside"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

func main() {
	servers := rpc.NewServer()
	if err := servers.Register(&Servers{running: map[int]*one{}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	servers.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
}

// Servers are the running servers.
type Servers struct {
	mu      sync.Mutex
	last    int
	running map[int]*one
}

type one struct {
	*server.Server // nil for a server of natsd
	stop           func()
}

// Start starts a server.
func (s *Servers) Start(c beside.Config, started *beside.Started) error {
	begin := described
	if c.DataDir != "" {
		begin = product
	}
	o, url, err := begin(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.running[s.last] = o
	*started = beside.Started{ID: s.last, URL: url}
	return nil
}

// product is the server of libs/natsd.
func product(c beside.Config) (*one, string, error) {
	s, err := natsd.Start(natsd.Config{
		Listen: c.Listen, DataDir: c.DataDir, Users: c.Conf, Relaxed: !c.Synced, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return nil, "", err
	}
	return &one{stop: s.Stop}, s.URL(), nil
}

// described starts a server of a cluster from its configuration. It waits for the others, at its
// given address.
func described(c beside.Config) (*one, string, error) {
	o, err := options(c.Conf)
	if err != nil {
		return nil, "", err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, "", err
	}
	go s.Start()
	return &one{s, func() { s.Shutdown(); s.WaitForShutdown() }}, "", nil
}

func options(conf string) (*server.Options, error) {
	o := &server.Options{NoSigs: true, NoLog: true, MaxPayload: 1 << 20, DisableShortFirstPing: true}
	return o, o.ProcessConfigString(conf)
}

// Reload gives a described server another configuration while it runs.
func (s *Servers) Reload(c beside.Reloading, _ *bool) error {
	one, err := s.find(c.ID)
	if err != nil {
		return err
	}
	o, err := options(c.Conf)
	if err != nil {
		return err
	}
	return one.ReloadOptions(o)
}

// Stop ends a server.
func (s *Servers) Stop(id int, _ *bool) error {
	o, err := s.find(id)
	if err != nil {
		return err
	}
	o.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	return nil
}

// State returns a described server's own report.
func (s *Servers) State(id int, state *beside.State) error {
	o, err := s.find(id)
	if err != nil {
		return err
	}
	*state = beside.State{
		Ready: o.ReadyForConnections(time.Second), Leads: o.JetStreamIsLeader(), Peers: len(o.JetStreamClusterPeers()),
		Routes: o.NumRemotes(), Gateways: o.NumOutboundGateways(),
	}
	return nil
}

// Holds says whether a described server leads a stream of the one account.
func (s *Servers) Holds(q beside.Holding, holds *bool) error {
	o, err := s.find(q.ID)
	if err != nil {
		return err
	}
	a, err := o.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	*holds = err == nil && o.JetStreamIsStreamLeader(a.GetName(), q.Stream)
	return nil
}

func (s *Servers) find(id int) (*one, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.running[id]; o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("no server %d", id)
}
