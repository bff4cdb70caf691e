package outside

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	step = regexp.MustCompile(`(?m)^## \d+\. `)
	// shown is a block of the page with the file that it is of.
	shown = regexp.MustCompile("(?ms)^\\*\\*`([\\w/.]+)`\\*\\*[^\n]*\n\n```\\w*\n(.*?)^```$")
	// function is one at the end of a file, which the page shows again when it changes.
	function = regexp.MustCompile(`(?ms)^func New\(.*?^}\n`)
)

// The module of the tutorial, and the one of which it is the tutorial.
const theirs, ours = "example.com/weather", "github.com/busbar-mcp/busbar/examples/weather"

// TestTutorial builds each step of docs/tutorial/first-service.md from an empty directory, as the page
// shows it, and runs its test. At the end there is examples/weather, byte for byte, but
// for its tests.
func TestTutorial(t *testing.T) {
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
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, dir := read(filepath.Join(root, "docs/tutorial/first-service.md")), t.TempDir()
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
	steps := step.Split(page, -1)[1:]
	if len(steps) != 5 {
		t.Fatalf("the page has %d steps", len(steps))
	}
	files := map[string]string{}
	for i, text := range steps {
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			name, block := m[1], m[2]
			switch {
			case name == "go.mod":
				block = "module " + theirs + "\n\ngo 1.26.0\n\n" + block
			case strings.HasPrefix(block, "func New("):
				if block = function.ReplaceAllLiteralString(files[name], block); block == files[name] {
					t.Errorf("step %d changes nothing in %s", i+1, name)
				}
			}
			files[name] = block
			write(name, block)
		}
		if i > 0 {
			run(t, env, dir, "go", "vet", "./...")
		}
	}
	run(t, env, dir, "go", "test", "-vet=off", "-count=1", "./...")

	var made, there []string
	for name, text := range files {
		if name == "go.mod" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		made = append(made, name)
		if want := strings.ReplaceAll(read(filepath.Join(root, "examples/weather", name)), ours, theirs); text != want {
			t.Errorf("the tutorial ends with another %s than examples/weather has; copy it there", name)
		}
	}
	for _, pattern := range []string{"*.go", "cmd/*/*.go"} {
		found, err := filepath.Glob(filepath.Join(root, "examples/weather", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if rel, err := filepath.Rel(filepath.Join(root, "examples/weather"), f); err == nil && !strings.HasSuffix(rel, "_test.go") {
				there = append(there, filepath.ToSlash(rel))
			}
		}
	}
	slices.Sort(made)
	slices.Sort(there)
	if !slices.Equal(made, there) {
		t.Errorf("the tutorial makes %v, examples/weather has %v", made, there)
	}
}
