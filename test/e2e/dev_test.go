package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// Metrics on loopback are open as long as a program authenticates nobody, and ask for a token otherwise.
func TestMetricsOfPrograms(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(policy, []byte("roles: {all: {allow: ['*']}}\nanonymous: [all]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, dev := startDev(t, "--metrics-listen", "127.0.0.1:0")
	_, edge := startEdge(t, dev.nats, "--metrics-listen", "127.0.0.1:0")
	_, guarded := startEdge(t, dev.nats, "--metrics-listen", "127.0.0.1:0", "--access", policy)
	_, behind := startEdge(t, dev.nats, "--metrics-listen", "127.0.0.1:0", "--auth-proxy-header", "X-User", "--auth-proxy-from", "127.0.0.1/32")
	for name, c := range map[string]struct {
		at     string
		status int
	}{
		"dev": {dev.metrics, 200}, "edge": {edge.metrics, 200}, "edge with a policy": {guarded.metrics, 401}, "edge behind a proxy that authenticates": {behind.metrics, 401},
	} {
		resp, err := http.Get(c.at)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s answers %s, want %d", name, c.at, resp.Status, c.status)
		}
	}
}

// TestShortPolicyWarnsOnce starts with a policy that grants services nothing: one line says
// where to look.
func TestShortPolicyWarnsOnce(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(policy, []byte("roles: {all: {allow: ['*']}}\nanonymous: [all]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := startDev(t, "--access", policy)
	bustest.Eventually(t, "it warns", func() bool { return strings.Contains(p.stderr.String(), "WARN") })
	p.signal(syscall.SIGTERM)
	if code := p.wait(bustest.Patience); code != 0 {
		t.Errorf("exited with %d", code)
	}
	out := p.stderr.String()
	if n := strings.Count(out, "level=WARN"); n != 1 || !strings.Contains(out, "busbar services --access FILE") {
		t.Errorf("%d warnings, want one that says where to look:\n%s", n, out)
	}
}

// TestDevTwice starts a second process on the data directory of the first.
func TestDevTwice(t *testing.T) {
	t.Parallel()
	first, dev := startDev(t)
	second := start(t, "busbar", "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", dev.data)
	if code := second.wait(5 * time.Second); code != 1 {
		t.Errorf("exited with %d, want 1", code)
	}
	out, _ := io.ReadAll(second.stdout)
	message := second.stderr.String()
	if len(out) > 0 || !strings.Contains(message, dev.data) || !strings.Contains(message, "in use") || strings.Count(message, "\n") != 1 {
		t.Errorf("said %q and %q; want one line that names the directory", out, message)
	}
	// The first one has not noticed.
	if m := send(t, modernCall(t, dev.mcp, "1", "analyzeText", analyze)).message; m.Error != nil {
		t.Error(m.Error)
	}
	first.signal(syscall.SIGTERM)
	if code := first.wait(5 * time.Second); code != 0 {
		t.Errorf("the first exited with %d", code)
	}
	// Now the directory is free, and its old content does no harm.
	third := start(t, "busbar", "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", dev.data)
	if got := third.awaitReady(); got.data != dev.data {
		t.Errorf("the third says %+v", got)
	}
}

// TestTakenPorts starts where another program listens already.
func TestTakenPorts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	t.Run("NATS", func(t *testing.T) {
		p := start(t, "busbar", "dev", "--listen", "127.0.0.1:0", "--nats-listen", address, "--data-dir", t.TempDir())
		got := p.awaitReady()
		if strings.HasSuffix(got.nats, address) {
			t.Errorf("says it is at %s, which is taken", got.nats)
		}
		// The ready line is true.
		hello := start(t, "hello", "--nats", got.nats)
		awaitInstances(t, got.nats, "hello", 1)
		hello.kill()
		if !strings.Contains(p.stderr.String(), address) {
			t.Errorf("does not say that %s is taken: %q", address, p.stderr.String())
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		p := start(t, "busbar", "dev", "--listen", address, "--nats-listen", "127.0.0.1:0", "--data-dir", t.TempDir())
		if code := p.wait(5 * time.Second); code != 1 {
			t.Errorf("exited with %d, want 1", code)
		}
		if m := p.stderr.String(); !strings.Contains(m, address) || !strings.Contains(m, "--listen") {
			t.Errorf("said %q", m)
		}
	})
}

// TestBadStart requires one clear line, and nothing on standard output, for a start that cannot
// work.
func TestBadStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"public edge", []string{"edge", "--listen", "0.0.0.0:0", "--nats", "nats://127.0.0.1:1"}, 1, "public"},
		{"public NATS", []string{"dev", "--listen", "127.0.0.1:0", "--nats-listen", "0.0.0.0:0", "--data-dir", t.TempDir()}, 1, "public"},
		{"data directory is a file", []string{"dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", file}, 1, "directory"},
		{"stdio on a file", []string{"stdio", "--data-dir", file}, 1, "directory"},
		{"unknown service left out", []string{"dev", "--without", "wether", "--data-dir", t.TempDir()}, 2, "--without wether: it is one of text, "},
		{"unknown flag", []string{"dev", "--no-such-flag"}, 2, "no-such-flag"},
		{"unknown command", []string{"devv"}, 2, "devv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "busbar", c.args...)
			if code := p.wait(5 * time.Second); code != c.code {
				t.Errorf("exited with %d, want %d", code, c.code)
			}
			out, _ := io.ReadAll(p.stdout)
			if len(out) > 0 || !strings.Contains(p.stderr.String(), c.says) {
				t.Errorf("said %q and %q; want %q in the second", out, p.stderr.String(), c.says)
			}
		})
	}
}

// TestOneProcessAFile: a second process on the SQLite file of another is refused,
// and told what to do.
func TestOneProcessAFile(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	for _, command := range [][]string{{"resource"}, {"prompt"}, {"audit", "serve"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			p := start(t, "busbar", append(command, "--nats", dev.nats, "--data-dir", dev.data)...)
			if code := p.wait(bustest.Patience); code != 1 {
				t.Errorf("exited with %d", code)
			}
			for _, says := range []string{command[0] + ".db is in use by another process", "--database-url"} {
				if !strings.Contains(p.stderr.String(), says) {
					t.Errorf("said %q, not %q", p.stderr.String(), says)
				}
			}
		})
	}
}

// TestStop ends idle processes by signal.
func TestStop(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for _, program := range []struct {
			name string
			run  func(t *testing.T) *process
		}{
			{"dev", func(t *testing.T) *process { p, _ := startDev(t); return p }},
			{"edge", func(t *testing.T) *process { p, _ := startEdge(t, dev.nats); return p }},
			{"edge's own program", func(t *testing.T) *process {
				p := start(t, "edge", "--listen", "127.0.0.1:0", "--nats", dev.nats)
				p.awaitReady()
				return p
			}},
			{"text", func(t *testing.T) *process {
				p := start(t, "text", "--nats", dev.nats)
				p.awaitReady()
				return p
			}},
			{"stdio", func(t *testing.T) *process {
				p := startPipe(t, "--nats", dev.nats)
				p.call("ping", "{}")
				return p.process
			}},
		} {
			t.Run(program.name+" "+s.String(), func(t *testing.T) {
				t.Parallel()
				p := program.run(t)
				began := time.Now()
				p.signal(s)
				if code := p.wait(5 * time.Second); code != 0 {
					t.Errorf("exited with %d", code)
				}
				if took := time.Since(began); took > 2*time.Second+slack {
					t.Errorf("took %v", took)
				}
			})
		}
	}
}

// TestStopWithConnections stops an edge that has connections on which nothing
// happens: browsers and Node's fetch open some ahead of need.
func TestStopWithConnections(t *testing.T) {
	t.Parallel()
	_, dev := startDev(t)
	for _, c := range []struct{ name, sent string }{
		{"unused", ""},
		{"half a header", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"},
		{"idle after a request", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			edge, at := startEdge(t, dev.nats)
			conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(at.mcp, "http://"), "/mcp"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, c.sent); err != nil {
				t.Fatal(err)
			}
			// The edge has accepted it once it has answered a later one.
			if m := send(t, modernCall(t, at.mcp, "1", "analyzeText", analyze)).message; m.Error != nil {
				t.Error(m.Error)
			}
			began := time.Now()
			edge.signal(syscall.SIGTERM)
			if code := edge.wait(15 * time.Second); code != 0 {
				t.Errorf("exited with %d", code)
			}
			if took := time.Since(began); took > 2*time.Second+slack {
				t.Errorf("took %v to exit", took)
			}
		})
	}
}
