// Package databasetest gives tests a real Postgres: the one named by BUSBAR_TEST_DATABASE_URL, or a
// server that it starts from the binaries on the machine, which it installs first if it can. It
// never skips a test. Start reading at Main and Postgres.
package databasetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Main runs a package's tests and then stops the server that they started.
//
//	func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	cluster.stop()
	return code
}

// Postgres returns the URL of an empty database for this test.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := cluster.url()
	if err != nil {
		t.Fatalf("no Postgres to test on: %v\nSet BUSBAR_TEST_DATABASE_URL to one whose user may create databases, or install it: apt-get install postgresql", err)
	}
	name := "busbar_test_" + strings.ToLower(rand.Text())
	exec := func(statement string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, statement)
		return errors.Join(err, conn.Close(ctx))
	}
	if err := exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// cluster is the server of this process.
var cluster server

type server struct {
	mu       sync.Mutex
	address  string
	err      error
	shutdown func()
}

func (s *server) url() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" && s.err == nil {
		if s.address = os.Getenv("BUSBAR_TEST_DATABASE_URL"); s.address == "" {
			var own *Server
			if own, s.err = newServer(); s.err == nil {
				s.address, s.shutdown = own.url("postgres"), own.remove
			}
		}
	}
	return s.address, s.err
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shutdown != nil {
		s.shutdown()
	}
}

// binaries finds the directory of initdb and postgres, of the newest release
// there is.
func binaries() (string, error) {
	if dir := find(); dir != "" {
		return dir, nil
	}
	if os.Getuid() != 0 {
		return "", errors.New("it is not installed, and only root may install it")
	}
	for _, args := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", "postgresql"}} {
		c := exec.Command("apt-get", args...)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	if dir := find(); dir != "" {
		return dir, nil
	}
	return "", errors.New("it was installed and its binaries are not where Debian has them")
}

func find() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return release(b) - release(a) })
	if len(found) > 0 {
		return filepath.Dir(found[0])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func release(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// other is a user that is not root.
func other() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("it does not run as root, and there is no user postgres or nobody")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
