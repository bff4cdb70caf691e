package outside

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// TestInit builds and tests what "busbar init" writes, as it is: go.mod and go.sum are
// whole, so that nothing is resolved.
func TestInit(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	built, err := programs.Build(root, "./services/busbar/cmd/busbar")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(dir, program string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, environment("readonly")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	run(home, built[0], "init", "shop", "--busbar", root)
	dir := filepath.Join(home, "shop")
	run(dir, "go", "build", ".")
	run(dir, "go", "test", "-count=1", "./...")
}
