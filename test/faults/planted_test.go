package main

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"testing"
)

// Each tag is in the product once and is used by a planted bug or a variant, and the product compiles
// with all of them.
func TestPlanted(t *testing.T) {
	t.Parallel()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) < 12 {
		t.Errorf("only %d bugs are planted", len(bugs))
	}
	var all []edit
	add := func(name string, edits []edit) {
		if _, err := edited(root, edits); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		for _, e := range edits {
			if !slices.ContainsFunc(all, func(other edit) bool { return other.tag == e.tag }) {
				all = append(all, e)
			}
		}
	}
	for _, bug := range bugs {
		add(bug.name, bug.edits)
		if len(runs[bug.program]) == 0 || len(bug.seen) == 0 {
			t.Errorf("%q: nobody runs it, or nobody has to find it", bug.name)
		}
	}
	for _, v := range []variant{sendsTwice, behind, ahead} {
		add(v.name, v.edits)
	}
	where, err := tagged(root)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]bool{}
	for tag, files := range where {
		if len(files) != 1 || !slices.ContainsFunc(all, func(e edit) bool { return e.tag == tag }) {
			t.Errorf("%s%s is there %d times, or no edit uses it: %q", tagMark, tag, len(files), files)
		}
		for _, file := range files {
			packages["./"+path.Dir(file)] = true
		}
	}
	list, err := overlay(root, all, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-buildvcs=false", "-trimpath", "-overlay", list}, sorted(packages)...)...)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as programs are built
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("the product does not compile with the planted bugs: %v\n%s", err, out)
	}
}
