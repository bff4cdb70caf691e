package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// An edge that is killed leaves its spool to those that live, or to the next one.
func TestSpoolOfAKilledEdge(t *testing.T) {
	t.Parallel()
	for _, survived := range []bool{false, true} {
		t.Run(fmt.Sprintf("survived %v", survived), func(t *testing.T) {
			t.Parallel()
			w, dir := newWorld(t), t.TempDir()
			if survived {
				w.join(t, dir, true)
			}
			w.leaveSpools(t, dir)
			if survived {
				bustest.Connect(t, w.url) // brings the stream back
			} else {
				w.join(t, dir, true)
			}
			w.waitFor(t, 20)
			bustest.Eventually(t, "nothing is left", func() bool {
				files, err := filepath.Glob(filepath.Join(dir, "*.spool"))
				return err == nil && len(files) >= 2 && !slices.ContainsFunc(files, func(f string) bool {
					info, err := os.Stat(f)
					return err != nil || info.Size() > 0
				})
			})
		})
	}
}

// leaveSpools has two edges die that could send none of ten records each. The
// stream is gone after that.
func (w *world) leaveSpools(t *testing.T, dir string) {
	t.Helper()
	edges := []*edge{w.join2(t, dir), w.join2(t, dir)}
	for _, e := range edges {
		for range 10 {
			if _, err := e.Do(t.Context(), call("echo", "{}"), nil); err != nil {
				t.Fatal(err)
			}
		}
		bustest.Eventually(t, "all is spooled", func() bool { s := e.trail.Stats(); return s.Queued == 0 && s.Spooled > 0 })
		e.kill()
	}
	for _, e := range edges {
		e.close() // a process that ends lets its locks go
	}
}

// join2 is join while the stream is gone, which joining makes.
func (w *world) join2(t *testing.T, dir string) *edge {
	t.Helper()
	e := w.join(t, dir, true)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	return e
}
