package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

//go:embed previous-release
var previousRelease string

// previous is the commit of the release before this one.
func previous() string {
	for line := range strings.Lines(previousRelease) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// Parts by the program that they run: the first half of an update, and the second.
var (
	firstHalf  = map[string]string{"ledger-2": ledgerProgram, "text-2": "services/text/cmd/text", "resource-2": resourceProgram, "audit-2": "services/audit/cmd/audit", "edge-2": busbarProgram}
	secondHalf = map[string]string{"ledger": ledgerProgram, "text": "services/text/cmd/text", "resource": resourceProgram, "audit": "services/audit/cmd/audit", "edge-1": busbarProgram}
)

// startPrevious has the fleet begin with the programs of the previous release.
func startPrevious(ctx context.Context, w *world) error {
	tree := filepath.Join(w.dir, "previous")
	if err := w.unpack(ctx, previous(), tree); err != nil {
		w.result.row("skipped", "", "the previous release, %.12s, is not in the history of this checkout (a shallow clone?): %v", previous(), err)
		return nil
	}
	for _, half := range []map[string]string{firstHalf, secondHalf} {
		for part, program := range half {
			to := filepath.Join(tree, "bin", path.Base(program))
			if _, err := os.Stat(to); err != nil {
				build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-o", to, "./"+program)
				build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0", "GOWORK="+filepath.Join(tree, "go.work"))
				if out, err := build.CombinedOutput(); err != nil {
					return fmt.Errorf("build %s of the previous release: %w\n%s", program, err, out)
				}
			}
			w.fleet.Use(part, to)
		}
	}
	w.old = true
	return nil
}

// unpack writes the files of a commit, and the ledger of today, which is built with the
// libraries of then.
func (w *world) unpack(ctx context.Context, commit, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", `git archive "$1" | tar -x -C "$2"`, "bash", commit, to)
	shell.Dir = w.root
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	for _, dir := range []string{"ledger", "cmd/ledger"} {
		into := filepath.Join(to, "test/faults", dir)
		if err := os.RemoveAll(into); err != nil {
			return err
		}
		if err := os.CopyFS(into, os.DirFS(filepath.Join(w.root, "test/faults", dir))); err != nil {
			return err
		}
	}
	return nil
}

// releases updates a fleet of the previous release, half of each at a time, while clients
// call: old edges with new services and the reverse, on one bus.
func releases(ctx context.Context, w *world) error {
	if !w.old {
		return nil
	}
	const n = 10
	var keyed, held []caller.Answer
	key := func(i int) caller.Call {
		return caller.Call{Tool: "append", Arguments: fmt.Sprintf(`{"key":"before-%d"}`, i), Key: fmt.Sprint("before-", i)}
	}
	for i := range n {
		edge := w.addresses()[i%2]
		keyed = append(keyed, caller.REST(ctx, edge, key(i)))
		held = append(held, caller.REST(ctx, edge, caller.Call{Tool: "approved", Arguments: fmt.Sprintf(`{"key":"held-%d"}`, i)}))
		if !keyed[i].OK || held[i].Approval == "" {
			return fmt.Errorf("the previous release does not do what it did: %v, %v", keyed[i], held[i])
		}
	}
	_ = pause(ctx, 3*time.Second) // what is judged begins after that
	steps := 0
	_, err := w.under(ctx, load.Load{}, func(ctx context.Context) error {
		for _, half := range []map[string]string{firstHalf, secondHalf} {
			_ = pause(ctx, 5*time.Second)
			for _, part := range sorted(half) {
				w.fleet.Use(part, "")
				if err := w.away(part, func() error { return w.again(ctx, part) }); err != nil {
					return err
				}
				steps++
			}
			if err := w.usable(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range n {
		edge := w.addresses()[i%2]
		if again := caller.REST(ctx, edge, key(i)); again.Text != keyed[i].Text {
			w.result.found(oracle.Finding{Oracle: oracle.Answer, Text: fmt.Sprintf("key %d of the previous release: %v %s, and it was %s", i, again, again.Text, keyed[i].Text)})
		}
		if agreed := caller.Approve(ctx, edge, held[i].Approval); !agreed.OK {
			w.result.found(oracle.Finding{Oracle: oracle.Forgotten, Text: fmt.Sprintf("held call %d of the previous release: %v", i, agreed)})
		}
	}
	w.result.row("previous release", "", "%.12s; %d processes updated, half of each kind at a time", previous(), steps)
	w.result.row("keys and held calls of before", "", "%d and %d, asked for after the update", n, n)
	return nil
}
