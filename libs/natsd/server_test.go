package natsd_test

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func start(t *testing.T, cfg natsd.Config) *natsd.Server {
	t.Helper()
	cfg.Logger = bustest.Logger(t)
	s, err := natsd.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestDataDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	first := start(t, natsd.Config{DataDir: dir})
	begin := time.Now()
	second, err := natsd.Start(natsd.Config{DataDir: dir, Logger: bustest.Logger(t)})
	if !errors.Is(err, natsd.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second server: %v", err)
	}
	if second != nil {
		second.Stop()
	}
	if took := time.Since(begin); took > bustest.Promptly {
		t.Errorf("refused after %v", took)
	}
	if _, err := connect(t, first.URL()).RTT(); err != nil {
		t.Errorf("the first server does not answer: %v", err)
	}
	first.Stop()
	start(t, natsd.Config{DataDir: dir}).Stop()
}

func TestAddressTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := t.TempDir()
	if _, err = natsd.Start(natsd.Config{Listen: l.Addr().String(), DataDir: dir, Logger: bustest.Logger(t)}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	start(t, natsd.Config{DataDir: dir}).Stop() // the lock was released
}

func TestBadListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, listen := range []string{"4222", "localhost", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", "[::1", "no.such.host.invalid:4222"} {
		if s, err := natsd.Start(natsd.Config{Listen: listen, DataDir: dir, Logger: bustest.Logger(t)}); err == nil {
			t.Errorf("%q accepted", listen)
			s.Stop()
		}
	}
	if s, err := natsd.Start(natsd.Config{DataDir: "/dev/null/x", Logger: bustest.Logger(t)}); err == nil {
		t.Error("a directory that cannot be made was accepted")
		s.Stop()
	}
	start(t, natsd.Config{DataDir: dir}).Stop() // refusals leave the directory free
}

func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", "127.0.0.1:0", ":0", "localhost:0"} {
		s := start(t, natsd.Config{Listen: listen, DataDir: t.TempDir()})
		host, _, err := net.SplitHostPort(strings.TrimPrefix(s.URL(), "nats://"))
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("%q listens at %s, %v", listen, s.URL(), err)
		}
		connect(t, s.URL()).Close()
		s.Stop()
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := start(t, natsd.Config{DataDir: t.TempDir(), Users: `authorization: { user: ada, password: "s3cret" }`})
	defer s.Stop()
	if nc, err := nats.Connect(s.URL()); err == nil {
		nc.Close()
		t.Error("connected without the password")
	}
	nc, err := nats.Connect(s.URL(), nats.UserInfo("ada", "s3cret"), nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// A program that keeps retrying without its secret causes one log line, with advice.
func TestRefusedLoginsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var logged bustest.Log
	s, err := natsd.Start(natsd.Config{DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logged, nil)), Users: `authorization: { user: ada, password: "s3cret" }`})
	if err != nil {
		t.Fatal(err)
	}
	const tries = 20
	for range tries {
		if nc, err := nats.Connect(s.URL()); err == nil {
			nc.Close()
			t.Fatal("connected without the password")
		}
	}
	s.Stop()
	if n := strings.Count(logged.String(), "authentication error"); n == 0 || n > tries/2 || !strings.Contains(logged.String(), "--nats-nkey") {
		t.Errorf("%d lines of %d refusals: %s", n, tries, &logged)
	}
}

// Stored data is there after a restart, also if every write is synced.
func TestDataSurvivesRestart(t *testing.T) {
	t.Parallel()
	for _, relaxed := range []bool{true, false} {
		dir := t.TempDir()
		s := start(t, natsd.Config{DataDir: dir, Relaxed: relaxed})
		first := connect(t, s.URL())
		js, err := first.JetStream(nats.MaxWait(bustest.Patience))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = js.AddStream(&nats.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
			t.Fatal(err)
		}
		if _, err = js.Publish("s", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		first.Close()
		s.Stop()
		s = start(t, natsd.Config{DataDir: dir, Relaxed: relaxed})
		nc := connect(t, s.URL())
		js, err = nc.JetStream(nats.MaxWait(bustest.Patience))
		if err != nil {
			t.Fatal(err)
		}
		if msg, err := js.GetMsg("S", 1); err != nil || string(msg.Data) != "kept" {
			t.Errorf("relaxed %v: %v, %v", relaxed, msg, err)
		}
		nc.Close()
		s.Stop()
	}
}
