package outside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// TestInit compiles what "busbar init" writes, with its tests, against a clone, as it is
// since its go.mod and go.sum are whole, and runs its tests against a release, of which it
// requires the modules. Both are of this tree. With a database it is tested on both engines.
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
	postgres := "BUSBAR_TEST_DATABASE_URL=" + databasetest.Postgres(t)
	for name, from := range map[string]struct {
		env   []string
		flags []string
		then  []string
	}{
		"shop":   {environment("readonly"), []string{"--busbar=" + root}, []string{"vet", "./..."}},
		"store":  {proxied, []string{"--release=" + release}, []string{"test", "-count=1", "./..."}},
		"notes1": {append(environment("readonly"), postgres), []string{"--busbar=" + root, "--with=database"}, []string{"test", "-count=1", "-v", "./..."}},
		"notes2": {proxied, []string{"--release=" + release, "--with=database"}, []string{"vet", "./..."}},
	} {
		run(t, from.env, home, built[0], append([]string{"init", name}, from.flags...)...)
		out := run(t, from.env, filepath.Join(home, name), "go", from.then...)
		for _, engine := range []string{"SQLite", "Postgres"} {
			if name == "notes1" && !strings.Contains(out, "--- PASS: TestNotes/"+engine+"_list") {
				t.Errorf("it was not tested on %s:\n%s", engine, out)
			}
		}
	}
	// The first import of another module needs nothing but go mod tidy.
	first := filepath.Join(home, "shop", "database.go")
	if err := os.WriteFile(first, []byte("package main\n\nimport _ \"github.com/busbar-mcp/busbar/libs/database\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, environment("mod"), filepath.Join(home, "shop"), "go", "mod", "tidy")
	run(t, environment("readonly"), filepath.Join(home, "shop"), "go", "build", ".")
}
