package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// A checkout that cannot be completed changes nothing: it must not remove files before it finds an
// obstacle.
func TestCheckoutAllOrNothing(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	git(t, dir, "checkout", "-q", "side")
	git(t, dir, "rm", "-rq", "src")
	put(t, dir, map[string]string{"src": "a file\n"})
	git(t, dir, "add", "src")
	git(t, dir, "commit", "-qm", "src is a file")
	git(t, dir, "checkout", "-q", "-b", "large", "main")
	put(t, dir, map[string]string{"a.txt": "x\n", "large": strings.Repeat("large\n", 6<<20)})
	git(t, dir, "add", "large", "a.txt")
	git(t, dir, "commit", "-qm", "large")
	git(t, dir, "checkout", "-q", "-b", "missing", "main")
	put(t, dir, map[string]string{"a.txt": "missing\n", "zzz": "y\n"})
	git(t, dir, "add", "zzz", "a.txt")
	git(t, dir, "commit", "-qm", "missing")
	lost := git(t, dir, "rev-parse", "HEAD:zzz")
	git(t, dir, "checkout", "-q", "main")
	if err := os.Remove(filepath.Join(dir, ".git/objects", lost[:2], lost[2:])); err != nil {
		t.Fatal(err)
	}
	unchanged := func(to string) {
		t.Helper()
		_ = b.Call("git_checkout", args{"revision": to})
		if got := git(t, dir, "status", "--porcelain", "-b", "-uno"); got != "## main" {
			t.Errorf("%s:\n%s", to, got)
		}
	}
	unchanged("large")
	unchanged("missing")
	put(t, dir, map[string]string{"src/mine.log": "mine\n"})
	unchanged("side")
	if words := fails(t, b, "git_checkout", args{"revision": "side"}); !strings.Contains(words, "src/mine.log is not tracked") {
		t.Error(words)
	}
	_ = os.Remove(filepath.Join(dir, "src/mine.log"))
	_ = os.Mkdir(filepath.Join(dir, "src/empty"), 0o755)
	unchanged("side")
	_ = os.Remove(filepath.Join(dir, "src/empty"))
	call[repo.Status](t, b, "git_checkout", args{"revision": "side"})
	if got := readFile(t, dir, "src"); got != "a file\n" {
		t.Error(got)
	}
	call[repo.Status](t, b, "git_checkout", args{"revision": "main"})
	if got := git(t, dir, "status", "--porcelain", "-b"); got != "## main" {
		t.Error(got)
	}
}

// Files outside of a sparse checkout are not written, and do not count as deleted.
func TestCheckoutOfSparse(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	git(t, dir, "update-index", "--skip-worktree", "a.txt")
	_ = os.Remove(filepath.Join(dir, "a.txt"))
	if s := call[repo.Status](t, b, "git_checkout", args{"revision": "side"}); len(s.Changes) != 0 {
		t.Errorf("%+v", s)
	}
	if got := git(t, dir, "status", "--porcelain", "-b"); got != "## side" || !strings.Contains(git(t, dir, "ls-files", "-v"), "S a.txt") {
		t.Error(got, git(t, dir, "ls-files", "-v"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("it was written")
	}
}
