package e2e

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

// TestNATSConfig runs a fleet on a NATS server with the users that "busbar
// nats-config" makes, one secret for each program.
func TestNATSConfig(t *testing.T) {
	t.Parallel()
	secrets := filepath.Join(t.TempDir(), "secrets")
	made := start(t, "busbar", "nats-config", "--services", "text,planning:calls", "--dir", secrets)
	config, err := io.ReadAll(made.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if code := made.wait(5 * time.Second); code != 0 || !strings.Contains(made.stderr.String(), "edge.secret") {
		t.Fatalf("exited with %d, said %q", code, made.stderr.String())
	}
	nats, err := natsd.Start(natsd.Config{DataDir: t.TempDir(), Users: string(config), Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	_, edge := startEdge(t, nats.URL(), "--nats-nkey", filepath.Join(secrets, "edge.secret"))
	start(t, "text", "--nats", nats.URL(), "--nats-nkey", filepath.Join(secrets, "text.secret"))
	bustest.Eventually(t, "the tool of the service", func() bool {
		return send(t, modernCall(t, edge.mcp, "1", "analyzeText", analyze)).message.Error == nil
	})
	for _, wrong := range []string{"text:fly", "edge", "text,text", "a.b"} {
		p := start(t, "busbar", "nats-config", "--services", wrong, "--dir", secrets)
		if code := p.wait(5 * time.Second); code != 2 {
			t.Errorf("%s: exited with %d", wrong, code)
		}
	}
}
