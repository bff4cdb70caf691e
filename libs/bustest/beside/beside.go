// Package beside runs NATS servers for a test in a process of their own, one for all
// servers of a test's process: the race detector then watches our code, and takes no
// time for the server's, which is tested elsewhere.
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

// Program is the environment variable that names the program of the servers. Where it
// is not set, the program is built.
const Program = "BUSBAR_TEST_SERVERS"

// Config says what to start. With DataDir it is the server of libs/natsd, otherwise one
// of a cluster, which Conf alone describes.
type Config struct {
	Listen, DataDir string
	// Conf is configuration in NATS's own format.
	Conf string
	// Synced has each write on the disk before it is acknowledged.
	Synced bool
}

// Started is a server that runs. One of a cluster is where its configuration says.
type Started struct {
	ID  int
	URL string
}

// State is what a server says of itself.
type State struct {
	Ready bool
	// Leads says whether it leads JetStream's cluster.
	Leads bool
	// Peers counts the servers that it may place streams on, where it leads.
	Peers int
	// Routes counts the other servers of its cluster that it is connected to.
	Routes int
	// Gateways counts those to other clusters.
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

// process is there while a server runs, so that a test's end leaves nothing.
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

// Stop ends the server, with what it has on the disk.
func (s *Server) Stop() error {
	return errors.Join(s.client.Call("Servers.Stop", s.ID, nil), leave())
}

// Reload has the server, one that Conf alone describes, take another configuration while it
// runs, as for the signal HUP.
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

// join counts one server more, and starts the process for the first.
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

// leave counts one server less, and ends the process after the last.
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
