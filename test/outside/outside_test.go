// Package outside proves that what the documents show is enough for a service
// outside of this repository.
package outside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	example = regexp.MustCompile(`func Example\w+\(`)
)

// environment is that of a module outside: go resolves with mod, and compiles as
// libs/bustest/programs does, so that little is left to compile.
func environment(mod string) []string {
	return append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -ldflags=-s -mod="+mod)
}

// TestOutside writes a module of the README's service, its test and its go.mod,
// of examples/orders and of the Examples of libs/service, and has it vetted and tested. What is
// downloaded for this repository is enough for it, if not for go mod tidy, which
// also looks at the tests of dependencies.
func TestOutside(t *testing.T) {
	t.Parallel()
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
	var code []string
	module := ""
	for _, block := range fenced.FindAllStringSubmatch(read("README.md"), -1) {
		switch {
		case block[1] == "go":
			code = append(code, block[2])
		case strings.HasPrefix(block[2], "require "):
			module = block[2]
		}
	}
	if len(code) != 2 || module == "" {
		t.Fatalf("the README has %d blocks of Go, not a service and its test; its go.mod is %q", len(code), module)
	}
	write("main.go", code[0])
	write("main_test.go", code[1])
	write("go.mod", "module example.com/hello\n\ngo 1.26.0\n\n"+strings.ReplaceAll(module, "../busbar", root))
	write("go.sum", read("libs/go.sum"))
	n := 0
	for _, name := range []string{"example_test.go", "example_build_test.go", "example_call_test.go", "example_resource_test.go", "example_sdk_test.go"} {
		// An Example's name is of what its own package has.
		write(filepath.Join("examples", name), example.ReplaceAllStringFunc(read("libs/service/"+name), func(string) string {
			n++
			return fmt.Sprintf("func Example_e%d(", n)
		}))
	}
	for _, name := range []string{"main.go", "store.go", "main_test.go"} {
		write(filepath.Join("orders", name), read("examples/orders/"+name))
	}
	n++
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "-v", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, environment("mod")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if ran := strings.Count(string(out), "--- PASS: "); args[0] == "test" && ran != n+1 {
			t.Errorf("%d tests and Examples ran, want %d\n%s", ran, n+1, out)
		}
	}
}
