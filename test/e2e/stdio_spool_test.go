package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// spools are the files of a spool directory, with their sizes.
func spools(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		sizes[f] = info.Size()
	}
	return sizes
}

// TestStdioSpool kills a busbar stdio that could not record a call: another one,
// which shares its spool and was there all the time, does when it can.
func TestStdioSpool(t *testing.T) {
	t.Parallel()
	nats := bustest.Start(t, bustest.Config{Synced: true})
	url := nats.URL
	startText(t, url, 1)
	dir := t.TempDir()
	join := func() *pipe { return startPipe(t, "--nats", url, "--audit-spool", dir) }
	first, second := join(), join()
	for _, p := range []*pipe{first, second} {
		if _, err := p.tryCall(answerTime, "tools/call", callAnalyze); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(spools(t, dir)); n != 2 {
		t.Fatalf("two processes have %d spools", n)
	}
	nats.Stop()
	eventually(t, "a call is refused", func() bool {
		_, err := first.tryCall(answerTime, "tools/call", callAnalyze)
		return err != nil
	})
	// Not only the previous call's record, which NATS may not have accepted any more.
	eventually(t, "its record waits on the disk", func() bool {
		for path := range spools(t, dir) {
			raw, err := os.ReadFile(path)
			if err == nil && (bytes.Contains(raw, []byte(fault.Unavailable)) || bytes.Contains(raw, []byte(fault.PeerLost))) {
				return true
			}
		}
		return false
	})
	first.kill()
	nats.Restart()
	eventually(t, "nothing waits on the disk", func() bool {
		for _, size := range spools(t, dir) {
			if size > 0 {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	r, found, seen := auditlog.NewReader(bustest.Connect(t, url), 0), false, ""
	for !found {
		batch, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("the refused call is not in the trail: %v; there are%s", err, seen)
		}
		for _, d := range batch {
			e := d.Event
			seen += fmt.Sprintf(" %s at %s (delayed %t),", e.Outcome, e.Door, e.Delayed)
			// Unavailable, or lost if NATS went in the middle of the call.
			found = found || e.Outcome != "ok" && e.Delayed && e.Door == "stdio"
			d.Ack()
		}
	}
	if _, err := second.tryCall(answerTime, "tools/call", callAnalyze); err != nil {
		t.Error(err)
	}
}

// TestStdioSpoolIsInTheDataDirectory starts two on one data directory.
func TestStdioSpoolIsInTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		p := startPipe(t, "--data-dir", dir)
		if _, err := p.tryCall(answerTime, "tools/call", callAnalyze); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(spools(t, filepath.Join(dir, "spool"))); n != 2 {
		t.Errorf("two processes have %d spools", n)
	}
}
