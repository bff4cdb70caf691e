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

// TestAccess writes the policy of docs/guides/access.md and runs its commands, and compares their
// output with the page. All policies of the page and of docs/reference/access.md have to be valid.
func TestAccess(t *testing.T) {
	t.Parallel()
	page := blocks(t, "docs/guides/access.md")
	home := build(t)
	if err := os.WriteFile(filepath.Join(home, "access.yaml"), []byte(only(page, "yaml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data, "--access", filepath.Join(home, "access.yaml"))
	bus := regexp.MustCompile(`nats=(nats://\S+)`).FindStringSubmatch(start(t, dev))
	if bus == nil {
		t.Fatal("it does not say where the bus is")
	}
	for _, example := range append(only(page, "yaml"), only(blocks(t, "docs/reference/access.md"), "yaml")...) {
		// The roles that some of them give are elsewhere.
		if _, err := access.Parse([]byte(example)); err != nil && !strings.Contains(err.Error(), "role") {
			t.Errorf("%s\n%v", example, err)
		}
	}
	ran := 0
	for _, console := range only(page, "console") {
		for _, one := range strings.Split("\n"+console, "\n$ ")[1:] {
			command, want, _ := strings.Cut(one, "\n")
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir = home
			// Nothing listens there: the edge is not asked. The bus is.
			cmd.Env = append(os.Environ(), "BUSBAR_URL=http://127.0.0.1:1", "BUSBAR_NATS="+bus[1], "BUSBAR_NATS_NKEY="+filepath.Join(data, "users", "operator.secret"), "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
			got, _ := cmd.Output() // whether it is allowed is the exit status
			// The page leaves out text that differs from run to run.
			form := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "bb_3fk9qx7d_…", `bb_[a-z2-7]{8}_[a-z2-7]{32}`)
			if !regexp.MustCompile("^(?s:" + form + ")$").MatchString(strings.TrimSpace(string(got))) {
				t.Errorf("%s\ngot\n%s\nwant\n%s", command, got, want)
			}
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("%d commands ran", ran)
	}
}
