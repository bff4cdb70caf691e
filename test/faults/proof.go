package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// prove plants one bug after another, and requires that an oracle finds it.
func prove(ctx context.Context, w *world) error {
	caught := 0
	whole := w.result
	defer func() { w.result = whole }()
	chosen := slices.DeleteFunc(slices.Clone(bugs), func(b planted) bool { return !strings.Contains(b.name, w.bugs) })
	if len(chosen) == 0 {
		return fmt.Errorf("no planted bug has %q in its name", w.bugs)
	}
	for i, bug := range chosen {
		began := time.Now()
		program, err := w.build(ctx, bug, filepath.Join(w.dir, "planted", fmt.Sprint(i)))
		if err != nil {
			return err
		}
		if err := w.run(ctx, bug, program); err != nil {
			return fmt.Errorf("%q: %w", bug.name, err)
		}
		found := w.result.byOracle()
		seen := ""
		for _, name := range bug.seen {
			if n := len(found[name]); n > 0 {
				seen += fmt.Sprintf("%s, %d times ", name, n)
			}
		}
		fmt.Printf("   %s: %s(%v)\n", bug.name, seen, time.Since(began).Round(time.Second))
		if seen == "" {
			whole.found(oracle.Finding{Oracle: oracle.Unseen, Text: fmt.Sprintf("%s: found was %v", bug.name, w.result.findings)})
			seen = "nobody"
		} else {
			caught++
		}
		whole.row("planted: "+bug.name, fmt.Sprint(bug.seen), "%s", seen)
	}
	whole.row("planted bugs that were found", "all", "%d of %d", caught, len(chosen))
	return nil
}

// run has clients call a fleet with a bug.
func (w *world) run(ctx context.Context, bug planted, program string) error {
	w.result = &result{}
	w.edges, w.died, w.notOfEdge, w.ledgers = nil, nil, nil, nil
	for _, part := range runs[bug.program] {
		w.fleet.Use(part, program)
		if err := w.again(ctx, part); err != nil {
			return err
		}
	}
	if err := w.become(ctx, bug.beside...); err != nil {
		return err
	}
	if len(bug.beside) == 0 { // beside a variant the bug may let nothing through
		if err := w.usable(ctx); err != nil {
			return err
		}
	}
	w.length = 4 * time.Second
	if bug.kills || len(bug.beside) > 0 { // it shows when messages meet at the right moment
		w.length = 25 * time.Second
	}
	w.seed++ // keys of their own
	l := load.Load{Only: []history.Kind{bug.calls}, RetryFor: 10 * time.Second, HeardFor: 5 * time.Second}
	if len(bug.beside) > 0 {
		l.Edges = w.addresses()[1:]
	}
	_, err := w.under(ctx, l, func(ctx context.Context) error {
		if !bug.kills {
			return nil
		}
		_, err := w.every(ctx, 1500*time.Millisecond, runs[ledgerProgram], func(part string) error { return w.kill(ctx, part, 100*time.Millisecond) })
		return err
	})
	if err != nil {
		return err
	}
	parts := slices.Clone(runs[bug.program])
	for _, v := range bug.beside {
		parts = append(parts, v.part)
	}
	for _, part := range parts {
		w.fleet.Use(part, "")
		if err := w.again(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// build builds a program with a bug; the checkout stays as it is.
func (w *world) build(ctx context.Context, bug planted, dir string) (string, error) {
	list, err := overlay(w.root, bug.edits, dir)
	if err != nil {
		return "", fmt.Errorf("%q: %w", bug.name, err)
	}
	program := filepath.Join(dir, path.Base(bug.program))
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-overlay", list, "-o", program, "./"+bug.program)
	cmd.Dir, cmd.Env = w.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with %q: %w\n%s", bug.name, err, out)
	}
	return program, nil
}

// overlay writes the files that edits change, and the list of them for "go build".
func overlay(root string, edits []edit, dir string) (list string, err error) {
	files, err := edited(root, edits)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, source := range files {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(to, source, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = to
	}
	raw, err := json.Marshal(struct{ Replace map[string]string }{replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, raw, 0o644)
}
