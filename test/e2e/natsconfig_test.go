package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/natsd"
)

// TestNATSConfig runs a fleet on a NATS server with the users that "busbar
// nats-config" makes, one secret for each program.
func TestNATSConfig(t *testing.T) {
	t.Parallel()
	secrets, config := issue(t, "text,planning:calls")
	nats, err := natsd.Start(natsd.Config{DataDir: t.TempDir(), Users: config, Logger: bustest.Logger(t)})
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
