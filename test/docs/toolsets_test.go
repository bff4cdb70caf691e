package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/access"
)

// TestToolsets runs the examples of docs/guides/clients.md with its policy, on few services.
func TestToolsets(t *testing.T) {
	t.Parallel()
	page := blocks(t, "docs/guides/clients.md")
	shown, conditions := only(page, "yaml")[0], 0
	for _, condition := range only(blocks(t, "docs/reference/access.md"), "yaml") {
		if !strings.Contains(condition, "toolset ==") {
			continue
		}
		conditions++
		if _, err := access.Parse([]byte(shown + condition)); err != nil {
			t.Errorf("%s\n%v", condition, err)
		}
	}
	if conditions != 1 {
		t.Errorf("docs/reference/access.md has %d conditions on a toolset", conditions)
	}
	home := build(t)
	policy := filepath.Join(home, "toolsets.yaml")
	if err := os.WriteFile(policy, []byte(shown), 0o600); err != nil {
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
			if request == "" { // the file of a client
				continue
			}
			same(t, request, answer, b.text)
			request = ""
			ran++
		}
	}
	if ran < 3 {
		t.Errorf("%d examples ran", ran)
	}
}
