package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// TestNATSConfig refuses services and rights that there are not; TestTLSEverywhere runs a fleet with
// its users.
func TestNATSConfig(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"text:fly", "edge", "text,text", "a.b"} {
		p := start(t, "busbar", "nats-config", "--services", wrong, "--dir", t.TempDir())
		if code := p.wait(5 * time.Second); code != 2 {
			t.Errorf("%s: exited with %d", wrong, code)
		}
	}
}

// TestNATSConfigHandsOut hands out to directories that programs may write: what they put
// there leads nowhere, and no service is given what is another's.
func TestNATSConfigHandsOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, out := filepath.Join(dir, "keys"), filepath.Join(dir, "out")
	run := func(want int, more ...string) {
		t.Helper()
		p := start(t, "busbar", append([]string{"nats-config", "--dir", keys, "--hand-out", out}, more...)...)
		if code := p.wait(bustest.Patience); code != want {
			t.Errorf("%v: exited with %d, want %d", more, code, want)
		}
	}
	run(2, "--services", "text,nats")
	run(2, "--services", "metrics")
	run(2, "--services", "text", "--tls", "nats:4222")
	run(0, "--services", "text", "--tls", "nats-1")
	before, err := os.ReadFile(filepath.Join(out, "edge", "edge.secret"))
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	for at, to := range map[string]string{"text/text.secret.new": theirs, "text/ca.pem": theirs, "metrics/metrics.token": theirs} {
		link := filepath.Join(out, at)
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	run(0, "--services", "text", "--tls", "nats-1", "--renew", "text")
	if _, err := os.Lstat(theirs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written through a link: %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(out, "edge", "edge.secret")); err != nil || !bytes.Equal(now, before) {
		t.Errorf("the edges have another secret: %v", err)
	}
	for at, mode := range map[string]fs.FileMode{"text/text.secret": 0o600, "edge/edge.secret": 0o600, "nats/nats-key.pem": 0o600, "nats/users.conf": 0o600, "metrics/metrics.token": 0o644, "text/metrics.token": 0o600} {
		if info, err := os.Lstat(filepath.Join(out, at)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", at, info, err)
		}
	}
}
