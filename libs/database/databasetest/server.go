package databasetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a Postgres server for one test, which can stop and start it.
type Server struct {
	bin, dir, port string
	as             *syscall.Credential
	settings       []string
	run            *exec.Cmd
	log            *strings.Builder
}

// Own starts a server only for this test, with settings such as max_connections=10.
func Own(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := newServer(settings...)
	if err != nil {
		t.Fatalf("no Postgres to test on: %v\nInstall it: apt-get install postgresql", err)
	}
	t.Cleanup(s.remove)
	return s
}

// Run starts a server for a program that is not a test. Close it.
func Run(settings ...string) (*Server, error) { return newServer(settings...) }

// Close stops the server and deletes what it stored.
func (s *Server) Close() { s.remove() }

// PID is its process, whose children serve its connections.
func (s *Server) PID() int { return s.run.Process.Pid }

// URL is the URL of its only database.
func (s *Server) URL() string { return s.url("postgres") }

// Encrypt gives the server a certificate, with files in PEM, and starts it again. After that, it
// accepts users other than postgres only over TLS and with a password.
func (s *Server) Encrypt(t testing.TB, cert, key string) {
	t.Helper()
	var err error
	put := func(name string, text []byte) {
		name = filepath.Join(s.data(), name)
		err = errors.Join(err, os.WriteFile(name, text, 0o600))
		if s.as != nil {
			err = errors.Join(err, os.Chown(name, int(s.as.Uid), int(s.as.Gid)))
		}
	}
	for name, from := range map[string]string{"server.crt": cert, "server.key": key} {
		pem, failed := os.ReadFile(from)
		err = errors.Join(err, failed)
		put(name, pem)
	}
	put("pg_hba.conf", []byte("host all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.settings = append(s.settings, "ssl=on")
	s.Start(t)
}

// Tool is the path of a program that comes with the server, such as pgbench.
func (s *Server) Tool(name string) string { return filepath.Join(s.bin, name) }

func (s *Server) url(database string) string {
	return "postgres://postgres@127.0.0.1:" + s.port + "/" + database + "?sslmode=disable"
}

// newServer makes a directory with a server in it and starts that.
func newServer(settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	if s.dir, err = os.MkdirTemp("", "busbar-postgres-"); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := s.start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) prepare() (err error) {
	// Postgres refuses to run as root.
	if os.Getuid() == 0 {
		if s.as, err = other(); err != nil {
			return err
		}
		if err := os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.port, err = freePort()
	return err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir, c.Env = s.dir, append(os.Environ(), "LC_ALL=C", "HOME="+s.dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return c
}

// start runs the server and returns when it takes connections.
func (s *Server) start() error {
	args := []string{"-D", s.data(), "-h", "127.0.0.1", "-p", s.port, "-k", s.dir, "-c", "max_connections=200", "-c", "fsync=off"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if s.run == nil {
			s.run, s.log = s.command("postgres", args...), &strings.Builder{}
			s.run.Stderr = s.log
			// The server must not outlive a test that is killed.
			s.run.SysProcAttr.Pdeathsig = syscall.SIGQUIT
			if err := s.run.Start(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.URL())
		cancel()
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres did not start: %w\n%s", err, s.log.String())
		}
		// After a kill it may refuse until the last of its processes has gone.
		if exited(s.run) {
			_ = s.run.Wait()
			s.run = nil
		}
	}
}

// exited reports whether a process waits for nothing but Wait.
func exited(c *exec.Cmd) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(rest, "Z")
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
	s.run = nil
}

// Start starts it again.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops all of its processes where they are, until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets them continue.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.run.Process.Pid))
	_ = s.run.Process.Signal(sig)
	for _, pid := range strings.Fields(string(children)) {
		var n int
		if _, err := fmt.Sscan(pid, &n); err == nil {
			_ = syscall.Kill(n, sig)
		}
	}
}

// remove stops the server and deletes what it stored.
func (s *Server) remove() {
	if s.run != nil {
		s.Thaw()
		_ = s.run.Process.Signal(syscall.SIGQUIT)
		_ = s.run.Wait()
	}
	_ = os.RemoveAll(s.dir)
}
