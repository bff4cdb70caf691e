package main

import "testing"

// Each planted bug replaces a text of the sources as they are today.
func TestPlanted(t *testing.T) {
	t.Parallel()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) < 12 {
		t.Errorf("only %d bugs are planted", len(bugs))
	}
	for _, bug := range bugs {
		if _, err := bug.change(root); err != nil {
			t.Error(err)
		}
		if len(runs[bug.program]) == 0 || len(bug.seen) == 0 {
			t.Errorf("%q: nobody runs it, or nobody has to find it", bug.name)
		}
	}
	for _, v := range []variant{sendsTwice, behind, ahead} {
		if _, err := (planted{name: v.name, edits: v.edits}).change(root); err != nil {
			t.Error(err)
		}
	}
}
