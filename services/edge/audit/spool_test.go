package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/audit"
)

// runs makes a call with an effect, which waits for the trail only for its first event.
func (w *world) runs(t *testing.T, e *edge) {
	t.Helper()
	before, began := w.executions(), time.Now()
	if _, err := e.Do(t.Context(), call("effect", "{}"), nil); err != nil || w.executions() != before+1 {
		t.Errorf("%v; %d executions", err, w.executions()-before)
	}
	if took := time.Since(began); took > bustest.Promptly {
		t.Errorf("a call with an effect took %v", took)
	}
}

// complete requires that each execution has its beginning and its end in the stream,
// except for some.
func (w *world) complete(t *testing.T, but int) {
	t.Helper()
	events := w.events(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.ledger {
		begun, ended := events[id+"-1"], events[id+"-2"]
		switch {
		case n != 1:
			t.Errorf("call %s ran %d times", id, n)
		case begun == nil && ended == nil && but > 0:
			but--
		case begun == nil || begun.Outcome != audit.Begun || ended == nil || ended.Outcome != "ok":
			t.Errorf("call %s ran, and its rows are %v and %v", id, begun, ended)
		}
	}
}

// While the stream is away, the beginning of a call with an effect is on the disk before
// the call runs.
func TestBeginningIsOnTheDiskBeforeTheEffect(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	e := w.join2(t, dir)
	ended := make(chan error, 1)
	go func() {
		_, err := e.Do(context.WithoutCancel(t.Context()), call("hold", "{}"), nil)
		ended <- err
	}()
	<-w.svc.Started
	files, err := filepath.Glob(filepath.Join(dir, "ends", "*.spool"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	if data, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(data), audit.Begun) {
		t.Errorf("its handler runs, and the disk has %q, %v", data, err)
	}
	e.kill() // the end is not known
	w.svc.Release <- struct{}{}
	<-ended
	e.close()
	bustest.Connect(t, w.url) // brings the stream back
	w.join(t, dir, true)
	w.waitFor(t, 1)
	bustest.Eventually(t, "the beginning is in the trail", func() bool {
		for _, event := range w.events(t) {
			if event.Name == "hold" && event.Outcome == audit.Begun && event.Delayed && event.Edge == e.name {
				return true
			}
		}
		return false
	})
}

// Beginnings take at most half of the room for calls with effects: the rest is for their
// ends. Beyond that, calls are refused; no call that ran lacks an end or has its answer
// withheld.
func TestSpoolIsFullOfBeginnings(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	e := w.joinWith(t, audit.Config{SpoolDir: dir, SpoolBytes: 256 << 10})
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		_, err := e.Do(t.Context(), call("effect", "{}"), nil)
		var f *fault.Error
		if errors.As(err, &f) {
			if f.Reason != fault.Unavailable || f.Executed != fault.No || w.executions() != n || n < 10 {
				t.Fatalf("after %d of %d executions: %v, executed %s", n, w.executions(), err, f.Executed)
			}
			break
		}
		if n > 1000 {
			t.Fatal("the spool has no bound")
		}
	}
	if _, err := e.trail.Status(); err == nil || !strings.Contains(err.Error(), "spool is full") {
		t.Errorf("the edge says %v", err)
	}
	bustest.Connect(t, w.url) // brings the stream back
	bustest.Eventually(t, "nothing waits", func() bool { s := e.trail.Stats(); return s.Queued == 0 && s.Spooled == 0 && s.Dropped == 0 })
	w.complete(t, 0)
	w.calls(t, e)
}

// If an edge cannot write its spool either, it refuses calls with an effect, runs none of
// them and says so.
func TestSpoolCannotBeWritten(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	e := w.join2(t, dir)
	e.trail.BreakSpool()
	w.refused(t, e)
	if _, err := e.trail.Status(); err == nil || !strings.Contains(err.Error(), "and the spool: ") {
		t.Errorf("the edge says %v", err)
	}
}

// Callers that wait for the disk at the same time all have their events there, each once.
func TestManyBeginningsAtOnce(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	e := w.join2(t, dir)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := e.Do(t.Context(), call("effect", "{}"), nil); err != nil && !bustest.StoodStill(err.Error()) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	e.kill()
	e.close()
	bustest.Connect(t, w.url)
	w.join(t, dir, true)
	w.waitFor(t, 2*w.executions())
	w.complete(t, 0)
}

// The spool of a killed edge goes to the living edges, or to the next one.
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

// leaveSpools makes two edges die that each could not send their ten records. The stream
// is gone after that.
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
		e.close() // a process that ends releases its locks
	}
}

// join2 is join while the stream is gone; joining would make it.
func (w *world) join2(t *testing.T, dir string) *edge {
	t.Helper()
	e := w.join(t, dir, true)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	return e
}
