// Package beside runs the NATS servers of a test's process in one separate process. So the race
// detector checks our code and spends no time on the server's, which is tested elsewhere. Start
// reading at Start.
package beside

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// Program is the environment variable that names the program of the servers. If it is not set, the
// program is built.
const Program = "BUSBAR_TEST_SERVERS"

// Config describes a server. With DataDir it is the server of libs/natsd, otherwise a server of a
// cluster, described only by Conf.
type Config struct {
	Listen, DataDir string
	// Conf is configuration in NATS's own format.
	Conf string
	// Synced makes the server sync each write to the disk before it acknowledges it.
	Synced bool
}

// Started is a running server. A server of a cluster has the address in its configuration.
type Started struct {
	ID  int
	URL string
}

// State is a server's own report.
type State struct {
	Ready bool
	// Leads is set if it leads JetStream's cluster.
	Leads bool
	// Peers counts the servers on which it may place streams, if it leads.
	Peers int
	// Routes counts the other servers of its cluster that it is connected to.
	Routes int
	// Gateways counts its connections to other clusters.
	Gateways int
}

// Holding asks whether a server leads a stream.
type Holding struct {
	ID     int
	Stream string
}

// Reloading gives a server of a cluster another configuration.
type Reloading struct {
	ID   int
	Conf string
}

// process exists while a server runs, so that nothing is left at the end of a test.
var process struct {
	mu      sync.Mutex
	servers int
	cmd     *exec.Cmd
	client  *rpc.Client
}

// Server is a server that runs until Stop.
type Server struct {
	Started
	client *rpc.Client
}

// Start starts a server. Its log goes to log, which may be nil.
func Start(c Config, log io.Writer) (*Server, error) {
	client, err := join(log)
	if err != nil {
		return nil, err
	}
	s := &Server{client: client}
	if err := client.Call("Servers.Start", c, &s.Started); err != nil {
		return nil, errors.Join(err, leave())
	}
	return s, nil
}

// Stop ends the server and deletes its data.
func (s *Server) Stop() error {
	return errors.Join(s.client.Call("Servers.Stop", s.ID, nil), leave())
}

// Reload gives a running server that is described by Conf another configuration, as for the signal
// HUP.
func (s *Server) Reload(conf string) error {
	return s.client.Call("Servers.Reload", Reloading{s.ID, conf}, nil)
}

// State asks the server for its state.
func (s *Server) State() (State, error) {
	var state State
	err := s.client.Call("Servers.State", s.ID, &state)
	return state, err
}

// Holds asks whether the server leads a stream.
func (s *Server) Holds(stream string) (bool, error) {
	var holds bool
	err := s.client.Call("Servers.Holds", Holding{s.ID, stream}, &holds)
	return holds, err
}

// join counts one more server, and starts the process for the first one.
func join(log io.Writer) (*rpc.Client, error) {
	p := &process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers == 0 {
		path, err := program()
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(path)
		cmd.Stderr = log
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start the NATS servers of tests: %w", err)
		}
		p.cmd, p.client = cmd, rpc.NewClient(pipes{out, in})
	}
	p.servers++
	return p.client, nil
}

// leave counts one server less, and ends the process after the last one.
func leave() error {
	p := &process
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers--
	if p.servers > 0 {
		return nil
	}
	return errors.Join(p.client.Close(), p.cmd.Wait())
}

// program is the path of the servers' program.
func program() (string, error) {
	if path := os.Getenv(Program); path != "" {
		return path, nil
	}
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", errors.New("the NATS servers of tests: no go.work here or above")
		}
		root = filepath.Dir(root)
	}
	built, err := programs.Build(root, "./libs/natsd/cmd/servers")
	if err != nil {
		return "", err
	}
	return built[0], nil
}

// pipes are the program's standard output and input.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) Close() error { return p.in.Close() }
