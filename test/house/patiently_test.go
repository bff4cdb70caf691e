package house

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A command is run again where the network failed it, and for nothing else.
func TestPatiently(t *testing.T) {
	t.Parallel()
	const none = `go: example.com/m@v1.0.0: Get "https://proxy.golang.org/example.com/m": dial tcp 192.0.2.1:443: i/o timeout`
	for name, c := range map[string]struct {
		says  string
		fails int // times
		runs  int
		ok    bool
	}{
		"it succeeds":                    {"", 0, 1, true},
		"the network fails once":         {none, 1, 2, true},
		"the network fails for good":     {none, 100, 3, false},
		"the proxy is overloaded":        {"reading https://proxy.golang.org/m: 503 Service Unavailable", 1, 2, true},
		"a module is not in step":        {"diff current/go.mod tidy/go.mod", 1, 1, false},
		"a program does not build":       {"main.go:5:1: undefined: x", 1, 1, false},
		"it finds something on line 502": {"Vulnerability #1: GO-2026-0001\nmain.go:502:3", 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := filepath.Join(t.TempDir(), "ran")
			cmd := exec.Command(filepath.Join(root(t), "scripts/patiently"), "sh", "-c",
				`echo >>"$RAN"; [ "$(wc -l <"$RAN")" -gt "$FAILS" ] && exit; echo "$SAYS"; exit 3`)
			cmd.Env = append(os.Environ(), "PATIENTLY=0 0", "RAN="+ran, "SAYS="+c.says, fmt.Sprint("FAILS=", c.fails))
			out, err := cmd.CombinedOutput()
			runs, _ := os.ReadFile(ran)
			if n := strings.Count(string(runs), "\n"); n != c.runs || (err == nil) != c.ok {
				t.Errorf("%d runs, %v: %s", n, err, out)
			}
		})
	}
}
