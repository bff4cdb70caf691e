package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/audit"
)

// After a sync failed, the disk may lack everything that was in the file by then, and a
// later sync does not say so. So no caller whose record was in it runs, nor any caller
// after it, until the events are sent.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	e := w.join2(t, dir)
	w.runs(t, e)
	syncs, fail := make(chan struct{}, 100), make(chan struct{})
	e.trail.OnSync(func(sync func() error) error {
		syncs <- struct{}{}
		<-fail
		if len(syncs) == 1 {
			return errors.New("planned: input/output error")
		}
		return sync()
	})
	var both sync.WaitGroup
	errs := make([]error, 2)
	before := e.trail.Stats().Spooled
	both.Go(func() { _, errs[0] = e.Do(context.WithoutCancel(t.Context()), call("effect", "{}"), nil) })
	<-syncs
	syncs <- struct{}{} // a sync is under way
	one := e.trail.Stats().Spooled
	both.Go(func() { _, errs[1] = e.Do(context.WithoutCancel(t.Context()), call("effect", "{}"), nil) })
	bustest.Eventually(t, "the second one has written its record", func() bool { return e.trail.Stats().Spooled-one >= one-before })
	close(fail)
	both.Wait()
	for i, err := range errs {
		if f := fault.From(err); !fault.Is(err, fault.Unavailable) || f.Executed != fault.No {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if n := w.executions(); n != 1 {
		t.Errorf("%d calls ran, want the one before", n)
	}
	w.refused(t, e)
	if _, err := e.trail.Status(); err == nil || !strings.Contains(err.Error(), "could not be synced") {
		t.Errorf("the edge says %v", err)
	}
	bustest.Connect(t, w.url) // brings the stream back
	bustest.Eventually(t, "nothing waits", func() bool { return e.trail.Stats().Spooled == 0 })
	w.complete(t, 0)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	w.runs(t, e)
}

// An edge whose spool is removed makes a new one. While it has events in a file that no
// other edge would find, it runs nothing until they are sent.
func TestSpoolIsRemoved(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), filepath.Join(t.TempDir(), "spool")
	e := w.join(t, dir, true)
	files := func() []string {
		all, err := filepath.Glob(filepath.Join(dir, "ends", "*.spool"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	remove := func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	bustest.Eventually(t, "there is a new one", func() bool { return len(files()) == 1 })
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	w.runs(t, e)
	remove()
	w.refused(t, e)
	if _, err := e.trail.Status(); err == nil || !strings.Contains(err.Error(), "removed or replaced") {
		t.Errorf("the edge says %v", err)
	}
	bustest.Connect(t, w.url) // brings the stream back
	bustest.Eventually(t, "there is a new one, and nothing waits", func() bool { return len(files()) == 1 && e.trail.Stats().Spooled == 0 })
	w.complete(t, 0)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	w.runs(t, e)
	e.kill()
	e.close()
	bustest.Connect(t, w.url)
	w.join(t, dir, true)
	w.waitFor(t, 2)
	w.complete(t, w.executions()-1) // the earlier ones went with the deleted stream
}

// While a spool cannot be made again, the edge says so, although calls run as long as
// NATS takes events.
func TestSpoolCannotBeMadeAgain(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), filepath.Join(t.TempDir(), "spool")
	e := w.join(t, dir, true)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.WriteFile(dir, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := e.trail.Status()
	if err != nil || !strings.Contains(line, "calls with effects are refused: the file of the audit spool was removed or replaced") {
		t.Errorf("%q, %v", line, err)
	}
	w.runs(t, e)
	if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	w.refused(t, e)
}

// Whatever a loss of power leaves behind the last record is set aside, and nothing else
// is lost: half a record, zeros, or other bytes.
func TestTornSpool(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("event "), 1000)
	for name, tear := range map[string]func([]byte) []byte{
		"half a record": func(whole []byte) []byte { return append(whole, whole[:len(whole)/3]...) },
		"zeros":         func(whole []byte) []byte { return append(whole, make([]byte, 4096)...) },
		"a huge length": func(whole []byte) []byte { return append(whole, bytes.Repeat([]byte{0xff}, 100)...) },
		"nothing":       func(whole []byte) []byte { return whole },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, add, leave, err := audit.SpoolFile(dir)
			if err == nil {
				err = add(long, []byte("second"))
			}
			if err != nil {
				t.Fatal(err)
			}
			leave()
			files, err := filepath.Glob(filepath.Join(dir, "*.spool"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			whole, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			torn := tear(bytes.Clone(whole))
			if err := os.WriteFile(files[0], torn, 0o600); err != nil {
				t.Fatal(err)
			}
			events, add, leave, err := audit.SpoolFile(dir)
			if err != nil || len(events) != 2 || !bytes.Equal(events[0], long) || string(events[1]) != "second" {
				t.Fatalf("%d events, %v", len(events), err)
			}
			if err := add([]byte("third")); err != nil {
				t.Fatal(err)
			}
			leave()
			if aside, err := os.ReadFile(files[0] + ".damaged"); len(torn) > len(whole) && (err != nil || !bytes.Equal(aside, torn[len(whole):])) {
				t.Errorf("set aside are %d bytes of %d, %v", len(aside), len(torn)-len(whole), err)
			}
			if events, _, leave, err = audit.SpoolFile(dir); err != nil || len(events) != 3 || string(events[2]) != "third" {
				t.Fatalf("%d events, %v", len(events), err)
			}
			leave()
		})
	}
}

// A file that cannot be taken, for example because its damaged end cannot be copied, does
// not keep an edge from starting.
func TestSpoolThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	torn := filepath.Join(dir, "0.spool")
	err := os.WriteFile(torn, []byte("torn"), 0o600)
	if err == nil {
		err = os.Mkdir(torn+".damaged", 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	events, add, leave, err := audit.SpoolFile(dir)
	if err == nil {
		err = add([]byte("mine"))
		leave()
	}
	if err != nil || len(events) != 0 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if left, err := os.ReadFile(torn); err != nil || string(left) != "torn" {
		t.Errorf("the file has %q, %v", left, err)
	}
}

// Whatever a spool file contains, an edge can open it, and the next one finds the events
// that it adds.
func FuzzSpool(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	f.Add([]byte{0, 0, 0, 1, 0xe8, 0xb7, 0xbe, 0x43, 'a', 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.spool"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		before, add, leave, err := audit.SpoolFile(dir)
		if err == nil {
			err = add([]byte("mine"))
			leave()
		}
		if err != nil {
			t.Fatal(err)
		}
		after, _, leave, err := audit.SpoolFile(dir)
		if err != nil || len(after) != len(before)+1 || string(after[len(before)]) != "mine" {
			t.Fatalf("%d events, then %d, %v", len(before), len(after), err)
		}
		leave()
	})
}
