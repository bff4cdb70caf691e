package outside

import (
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// TestInit compiles what "busbar init" writes, with its tests, against a clone, as it is
// since its go.mod and go.sum are whole, and runs its tests against a release, of which it
// requires the modules. Both are of this tree.
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
	proxied, err := released()
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]struct {
		env  []string
		flag string
		then []string
	}{
		"shop":  {environment("readonly"), "--busbar=" + root, []string{"vet", "./..."}},
		"store": {proxied, "--release=" + release, []string{"test", "-count=1", "./..."}},
	} {
		run(t, from.env, home, built[0], "init", name, from.flag)
		run(t, from.env, filepath.Join(home, name), "go", from.then...)
	}
}
