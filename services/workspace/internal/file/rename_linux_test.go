package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// A directory that became a link to .git after it was opened is not followed.
func TestRenameIntoOpenDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{".git/hooks", "sub"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "hook"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	rs, err := root.Open([]string{"main=" + top})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	v, err := rs.View("", nil)
	if err != nil {
		t.Fatal(err)
	}
	place := func(path string) (root.Place, *os.Root) {
		p, err := v.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		dir, _, err := parent(p, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		return p, dir
	}
	from, source := place("hook")
	to, target := place("sub/pre-commit")
	if err := os.Rename(filepath.Join(top, "sub"), filepath.Join(top, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git/hooks", filepath.Join(top, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := rename(from, to, source, target); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, "was", "pre-commit")); err != nil {
		t.Errorf("it is not where it was to go: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(top, ".git", "hooks", "pre-commit")); err == nil {
		t.Error("it was moved into .git")
	}
}
