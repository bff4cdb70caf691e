package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPages compares the generated pages with the code.
func TestPages(t *testing.T) {
	t.Parallel()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range all {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || string(got) != want {
			t.Errorf("%s differs from the code; run make gen (%v)", path, err)
		}
	}
}
