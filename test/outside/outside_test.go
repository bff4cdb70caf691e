// Package outside proves that what the documents show is enough for a service
// outside of this repository.
package outside

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var example = regexp.MustCompile(`func Example\w+\(`)

// environment returns the environment of a module outside: go resolves with mod, and compiles as
// libs/bustest/programs does, so that little is left to compile.
func environment(mod string) []string {
	return append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -ldflags=-s -modcacherw -mod="+mod)
}

// release is the version that the documents name.
const release = "v0.1.0"

// released is the environment in which a module outside is built against a release of all modules
// of this tree, at a proxy of its own.
var released = sync.OnceValues(func() (env []string, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	home := filepath.Join(root, ".tmp", "outside")
	proxy := filepath.Join(home, "proxy")
	if err := os.RemoveAll(proxy); err != nil {
		return nil, err
	}
	var out []byte
	for _, args := range [][]string{{"run", "scripts/modules/main.go", "proxy", release, proxy}, {"env", "GOMODCACHE", "GOPROXY"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err = cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	// Go's build cache keeps the imports of a downloaded module by the module's directory, and
	// never reads them again: a tree that changed gets another directory.
	sum, err := contents(proxy)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(home, sum)
	entries, err := os.ReadDir(home)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if old := filepath.Join(home, e.Name()); old != proxy && old != cache {
			if err := os.RemoveAll(old); err != nil {
				return nil, err
			}
		}
	}
	// A build of this repository downloads less than another module is resolved with, so
	// what is not here comes from where the machine takes modules from.
	downloaded, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(environment("mod"), "GOMODCACHE="+cache, "GOSUMDB=off",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(downloaded, "cache", "download")+","+others), nil
})

// contents names the files below dir by their contents.
func contents(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		fmt.Fprintf(sum, "%s %x\n", strings.TrimPrefix(file, dir), sha256.Sum256(text))
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// unreachable matches the messages of go if the server that it downloads from does not answer.
var unreachable = regexp.MustCompile(`dial tcp|i/o timeout|TLS handshake|connection re(set|fused)|unexpected EOF|\b(429|50\d) [A-Z]`)

// run runs a program as somebody outside does, and says what it printed: up to three times
// when it could not download something.
func run(t *testing.T, env []string, dir, program string, args ...string) string {
	t.Helper()
	for try := 1; ; try++ {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err == nil {
			return string(out)
		}
		if try == 3 || !unreachable.Match(out) {
			t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
		}
	}
}

// TestOutside writes a module of examples/hello, which the README shows, of examples/orders and of
// the Examples of the SDK. It is vetted and tested against a release of this tree: it requires
// modules by version, and replaces none.
func TestOutside(t *testing.T) {
	t.Parallel()
	env, err := released()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"main.go", "main_test.go"} {
		write(name, read("examples/hello/"+name))
	}
	// One Example stores something.
	module := "module example.com/hello\n\ngo 1.26.0\n"
	for _, name := range []string{"libs", "libs/service/servicetest", "libs/database"} {
		module += "\nrequire github.com/busbar-mcp/busbar/" + name + " " + release
	}
	write("go.mod", module+"\n")
	n := 0
	// Beside the service, for they are linked with its test, and linking is most of this.
	beside := strings.NewReplacer("package servicetest_test", "package main_test")
	for _, name := range []string{"example_test.go", "example_build_test.go", "example_call_test.go", "example_resource_test.go", "example_sdk_test.go"} {
		// The name of an Example must name something in its own package.
		write(name, example.ReplaceAllStringFunc(beside.Replace(read("libs/service/servicetest/"+name)), func(string) string {
			n++
			return fmt.Sprintf("func Example_e%d(", n)
		}))
	}
	for _, name := range []string{"main.go", "store.go", "main_test.go"} {
		write(filepath.Join("orders", name), read("examples/orders/"+name))
	}
	n++
	run(t, env, dir, "go", "vet", "./...")
	out := run(t, env, dir, "go", "test", "-vet=off", "-count=1", "-v", "./...")
	if ran := strings.Count(out, "--- PASS: "); ran != n+1 {
		t.Errorf("%d tests and Examples ran, want %d\n%s", ran, n+1, out)
	}
}

// TestSameRelease has a tree that did not change make the same release, byte for byte.
func TestSameRelease(t *testing.T) {
	t.Parallel()
	var sums [2]string
	for i := range sums {
		dir := t.TempDir()
		run(t, os.Environ(), "../..", "go", "run", "scripts/modules/main.go", "proxy", release, dir)
		var err error
		if sums[i], err = contents(dir); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Error("two releases of one tree differ")
	}
}

// TestGraph has a service that depends on the SDK depend on no database and no server.
func TestGraph(t *testing.T) {
	t.Parallel()
	env, err := released()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module example.com/x\n\ngo 1.26.0\n\nrequire github.com/busbar-mcp/busbar/libs " + release + "\n",
		"main.go": "package main\n\nimport \"github.com/busbar-mcp/busbar/libs/service\"\n\nfunc main() { service.Main[service.Env](\"x\", nil) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, env, dir, "go", "vet", ".")
	all := run(t, env, dir, "go", "mod", "graph")
	if !strings.Contains(all, "github.com/busbar-mcp/busbar/gen@"+release) {
		t.Errorf("these are not its modules:\n%s", all)
	}
	for _, other := range []string{"nats-server", "sqlite", "goose", "pgx", "busbar/libs/"} {
		if strings.Contains(all, other) {
			t.Errorf("the SDK brings %s along:\n%s", other, all)
		}
	}
}
