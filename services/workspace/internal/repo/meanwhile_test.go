package repo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// opened makes a repository of two commits with the git program, and returns a function that opens
// it.
func opened(t *testing.T) (dir string, open func() *Repo) {
	t.Helper()
	dir = t.TempDir()
	for _, script := range []string{"git init -q -b main; printf one > a; printf same > b; git add .; git commit -qm 1", "printf two > a; git commit -qam 2"} {
		c := exec.Command("sh", "-ec", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	roots, err := root.Open([]string{"main=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	v, err := roots.View("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close(); _ = roots.Close() })
	return dir, func() *Repo {
		p, err := v.Find("main")
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := Open(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
}

// A file that changes after a checkout has checked it is not removed.
func TestChangeDuringCheckout(t *testing.T) {
	t.Parallel()
	dir, open := opened(t)
	r := open()
	target, err := r.commit("HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := r.room(target)
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.put(changes); err == nil || !strings.Contains(err.Error(), "uncommitted") {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a")); string(data) != "new" {
		t.Errorf("%q %v", data, err)
	}
}

// A file that changed, with the same size, in the moment in which the index was written still
// counts as changed after the index is written again, although its times are then older than the
// index.
func TestRacyEntryIsWrittenAgain(t *testing.T) {
	t.Parallel()
	dir, open := opened(t)
	r := open()
	s, err := r.index()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "b")
	if err := os.WriteFile(at, []byte("SAME"), 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(at)
	if err != nil {
		t.Fatal(err)
	}
	stat(info, s.paths["b"]) // from the moment in which it had the other content
	if err := r.save(s); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, ".git/index"), time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	want := func() {
		t.Helper()
		if all, err := open().changes("."); err != nil || len(all) == 0 || all[len(all)-1] != (Change{Path: "b", Worktree: modified}) {
			t.Errorf("%+v %v", all, err)
		}
	}
	want()
	time.Sleep(20 * time.Millisecond)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("three"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open().Add([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	want()
}
