package listener_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/listener"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func files(p certtest.Pair) listener.Files { return listener.Files{Cert: p.Cert, Key: p.Key} }

func load(t *testing.T, f listener.Files, log io.Writer) *listener.TLS {
	t.Helper()
	c, err := listener.Load(f, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// greet answers every connection with one byte.
func greet(t *testing.T, l net.Listener) string {
	t.Helper()
	var greeting sync.WaitGroup
	greeting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			greeting.Go(func() {
				_, _ = c.Write([]byte("!"))
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); greeting.Wait() })
	return l.Addr().String()
}

// dial reports the state of a connection that was greeted.
func dial(ctx context.Context, address string, cfg *tls.Config) (tls.ConnectionState, error) {
	d := tls.Dialer{Config: cfg, NetDialer: &net.Dialer{Timeout: bustest.Patience}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(bustest.Patience))
	if _, err = io.ReadFull(c, make([]byte, 1)); err != nil {
		return tls.ConnectionState{}, err
	}
	return c.(*tls.Conn).ConnectionState(), nil
}

func TestVersionsAndClients(t *testing.T) {
	t.Parallel()
	ca, others := certtest.New(t), certtest.New(t)
	f := files(ca.Issue(t, "edge", time.Hour))
	f.ClientCA = ca.File
	address := greet(t, load(t, f, io.Discard).Listen(listen(t), "h2", "http/1.1"))
	own := func(p certtest.Pair) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	for name, c := range map[string]struct {
		cfg  *tls.Config
		good bool
	}{
		"1.3":                   {&tls.Config{}, true},
		"1.2":                   {&tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"1.1":                   {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		"1.2 with CBC":          {&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, false},
		"a client":              {&tls.Config{Certificates: own(ca.Issue(t, "anna", time.Hour))}, true},
		"a client of others":    {&tls.Config{Certificates: own(others.Issue(t, "anna", time.Hour))}, false},
		"a client, out of date": {&tls.Config{Certificates: own(ca.Issue(t, "anna", -time.Minute))}, false},
		"an unknown protocol":   {&tls.Config{NextProtos: []string{"spdy/3"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.RootCAs, c.cfg.ServerName = ca.Pool(), "localhost"
			certificates := c.cfg.Certificates
			c.cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // even one that the edge would not accept
				if len(certificates) == 0 {
					return &tls.Certificate{}, nil
				}
				return &certificates[0], nil
			}
			state, err := dial(t.Context(), address, c.cfg)
			if (err == nil) != c.good {
				t.Fatalf("%v", err)
			}
			if c.good && state.Version == tls.VersionTLS12 != (c.cfg.MaxVersion == tls.VersionTLS12) {
				t.Errorf("version %x", state.Version)
			}
		})
	}
}

// Clients that connect while the certificate is renewed are answered, with the old one or the new
// one.
func TestRenewal(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	dir := t.TempDir()
	// As Kubernetes mounts secrets: files are links through a link that is swapped.
	swap := func(p certtest.Pair) {
		next := filepath.Join(dir, "next")
		if err := errors.Join(os.Symlink(filepath.Dir(p.Cert), next), os.Rename(next, filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
	}
	swap(ca.Issue(t, "first", time.Hour))
	f := listener.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	if err := errors.Join(os.Symlink("data/tls.crt", f.Cert), os.Symlink("data/tls.key", f.Key)); err != nil {
		t.Fatal(err)
	}
	var log bustest.Log
	c := load(t, f, &log)
	address := greet(t, c.Listen(listen(t), "h2"))
	name := func() string {
		state, err := dial(t.Context(), address, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
		if err != nil {
			t.Fatalf("a request failed: %v", err)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	becomes := func(want string) { bustest.Eventually(t, want+" is shown", func() bool { return name() == want }) }
	becomes("first")
	swap(ca.Issue(t, "second", 2*time.Hour))
	becomes("second")

	// A key of another certificate, no files, garbage, and one that is out of date.
	mixed, other := ca.Issue(t, "third", time.Hour), ca.Issue(t, "fourth", time.Hour)
	if err := os.Rename(other.Key, mixed.Key); err != nil {
		t.Fatal(err)
	}
	garbage := ca.Issue(t, "fifth", time.Hour)
	if err := os.WriteFile(garbage.Cert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]certtest.Pair{
		"another's key": mixed, "no files": {Cert: filepath.Join(t.TempDir(), "tls.crt")}, "garbage": garbage, "out of date": ca.Issue(t, "old", -time.Minute),
	} {
		log.Reset()
		swap(p)
		bustest.Eventually(t, "the status tells of "+what, func() bool {
			line, err := c.Status()
			return err == nil && strings.Contains(line, "cannot be used") && !strings.Contains(line, dir)
		})
		bustest.Eventually(t, "the log tells of "+what, func() bool { return strings.Contains(log.String(), "the last good one stays") })
		if now := name(); now != "second" {
			t.Errorf("%s: %s, %s", what, now, log.String())
		}
		swap(ca.Issue(t, "second", 2*time.Hour))
		bustest.Eventually(t, "all is well again after "+what, func() bool { line, _ := c.Status(); return !strings.Contains(line, "cannot") })
	}
	swap(ca.Issue(t, "last", time.Hour))
	becomes("last")
}

func TestLoadFails(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	good, old := ca.Issue(t, "a", time.Hour), ca.Issue(t, "b", -time.Minute)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("x"), 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, f := range map[string]listener.Files{
		"--tls-cert: ":        {Cert: "/nowhere", Key: good.Key},
		"--tls-key: ":         {Cert: good.Cert, Key: "/nowhere"},
		"private key":         {Cert: good.Cert, Key: old.Key},
		"expired on":          {Cert: old.Cert, Key: old.Key},
		"is larger":           {Cert: large, Key: good.Key},
		"--tls-client-ca: ":   {Cert: good.Cert, Key: good.Key, ClientCA: "/nowhere"},
		"contains no certifi": {Cert: good.Cert, Key: good.Key, ClientCA: good.Key},
	} {
		if c, err := listener.Load(f, slog.Default()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v %v, want %s", c, err, says)
		}
	}
}

// Clients that begin a handshake and stop do not delay others, and their slots are limited.
func TestCase28SlowHandshakes(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	address := greet(t, load(t, files(ca.Issue(t, "edge", time.Hour)), io.Discard).Listen(listen(t), "h2"))
	cut, begun := 0, time.Now()
	conns := make([]net.Conn, 600) // an address has 500 slots
	for i := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte{22, 3, 1})
		conns[i] = c
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	d := tls.Dialer{NetDialer: other, Config: &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("another address is not served: %v", err)
	}
	_ = c.Close()
	if took := time.Since(begun); took > 4*time.Second {
		t.Logf("slow machine: the handshakes may be over, after %v", took)
	}
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(bustest.Patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a handshake without an end is not cut: %v", err)
		}
		cut++
	}
	if cut != len(conns) {
		t.Errorf("%d cut", cut)
	}
}

// A client that speaks HTTP without TLS gets an answer that says so.
func TestPlainClient(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	address := greet(t, load(t, files(ca.Issue(t, "edge", time.Hour)), io.Discard).Listen(listen(t), "http/1.1"))
	resp, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "https") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	address := greet(t, listener.Bound(listen(t), 4))
	try := func(from byte) (net.Conn, error) {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}).Dial("tcp", address)
		if err != nil {
			return nil, err
		}
		_ = c.SetReadDeadline(time.Now().Add(bustest.Patience))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("from %d: %w", from, err)
		}
		return c, nil
	}
	first, err := try(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from byte
		good bool
	}{{1, true}, {1, false}, {2, true}, {2, true}, {3, false}} {
		conn, err := try(c.from)
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			defer conn.Close()
		}
	}
	_ = first.Close()
	bustest.Eventually(t, "there is room again", func() bool {
		c, err := try(3)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// Data that a client does not read stays in the program, which counts it and gives up.
func TestWhoDoesNotReadHoldsLittle(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the kernel takes what it takes")
	}
	l := listener.Bound(listen(t), 2)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	n, err := c.Write(make([]byte, 16<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("%d bytes were taken for who reads none, %v", n, err)
	}
}
