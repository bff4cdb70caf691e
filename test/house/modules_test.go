package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	used     = regexp.MustCompile(`(?m)^\t(\.\S*)$`)
	required = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) (v\S+)`)
	goLine   = regexp.MustCompile(`(?m)^go (\S+)$`)
)

// The modules of the workspace require the same version of a module, and the same Go. Code that a
// tool generates fits the library that it is compiled with, and servers that Busbar is compared with
// have the libraries that Busbar has.
func TestModules(t *testing.T) {
	top := root(t)
	work := text(t, top, "go.work")
	first := map[string]string{} // the file that requires it, and the version
	check := func(dir string, counts func(path string) bool) {
		file := filepath.ToSlash(filepath.Join(dir, "go.mod"))
		mod := text(t, top, file)
		if a, b := goLine.FindString(work), goLine.FindString(mod); a != b {
			t.Errorf("%s says %q, go.work %q", file, b, a)
		}
		for _, m := range required.FindAllStringSubmatch(mod, -1) {
			if strings.HasPrefix(m[1], prefix) || !counts(m[1]) {
				continue
			}
			before, version, is := strings.Cut(first[m[1]], " ")
			if !is {
				first[m[1]] = file + " " + m[2]
			} else if version != m[2] {
				t.Errorf("%s requires %s %s, %s requires %s; run make tidy", file, m[1], m[2], before, version)
			}
		}
	}
	dirs := used.FindAllStringSubmatch(work, -1)
	if len(dirs) < 2 {
		t.Fatalf("go.work uses %q", dirs)
	}
	for _, m := range dirs {
		if _, err := os.Stat(filepath.Join(top, m[1], "go.mod")); err != nil {
			t.Error(err)
		}
		check(m[1], func(string) bool { return true })
	}
	check("tools", func(path string) bool { return path == "google.golang.org/protobuf" })
	check("test/bench/peers", func(path string) bool {
		return strings.HasPrefix(path, "github.com/nats-io/nats") || path == "github.com/modelcontextprotocol/go-sdk"
	})
}
