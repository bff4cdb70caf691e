package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/access"
)

// TestToolsets runs the examples of docs/guides/toolsets.md with its policy, on few services.
func TestToolsets(t *testing.T) {
	t.Parallel()
	page := blocks(t, "docs/guides/toolsets.md")
	policies := only(page, "yaml")
	for _, condition := range policies[1:] {
		if _, err := access.Parse([]byte(policies[0] + condition)); err != nil {
			t.Errorf("%s\n%v", condition, err)
		}
	}
	home := build(t)
	policy := filepath.Join(home, "toolsets.yaml")
	if err := os.WriteFile(policy, []byte(policies[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--access", policy, "--services", "text")
	address := regexp.MustCompile(`mcp=(http://\S+)/mcp`).FindStringSubmatch(start(t, dev))
	if address == nil {
		t.Fatal("it does not say where it listens")
	}
	ran, request, answer := 0, "", ""
	for _, b := range page {
		switch b.language {
		case "http":
			request, answer = b.text, send(t, address[1], b.text)
		case "json":
			same(t, request, answer, b.text)
			ran++
		}
	}
	if ran < 3 {
		t.Errorf("%d examples ran", ran)
	}
}
