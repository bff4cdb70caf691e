package outside

import (
	"fmt"
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
	// An import of any public package needs nothing but go mod tidy, from a clone and from a
	// release.
	for name, env := range map[string][]string{"shop": environment("mod"), "store": proxied} {
		dir := filepath.Join(home, name)
		if err := os.WriteFile(filepath.Join(dir, "imports.go"), []byte("package main\n\nimport (\n"+public(t, root)+")\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, env, dir, "go", "mod", "tidy")
		run(t, append(env, "GOFLAGS=-trimpath -ldflags=-s -modcacherw -mod=readonly"), dir, "go", "vet", ".")
	}
}

// public are the packages that a service may import, each as a line of an import declaration.
func public(t *testing.T, root string) string {
	t.Helper()
	var lines strings.Builder
	packages := strings.Fields(run(t, os.Environ(), root, "go", "list", "-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`,
		"./gen/...", "./libs/...", "./libs/database/...", "./libs/natsd/...", "./libs/service/servicetest/..."))
	for _, path := range packages {
		if !strings.Contains(path+"/", "/internal/") {
			fmt.Fprintf(&lines, "\t_ %q\n", path)
		}
	}
	if len(packages) < 20 {
		t.Fatalf("only %d packages are public: %v", len(packages), packages)
	}
	return lines.String()
}
