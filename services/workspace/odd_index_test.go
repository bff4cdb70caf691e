package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// unmerge leaves merges of files open, as git stash pop does, without a marker file.
func unmerge(t *testing.T, dir string, names ...string) {
	t.Helper()
	one, two := git(t, dir, "rev-parse", "HEAD:a.txt"), git(t, dir, "rev-parse", "HEAD~1:a.txt")
	var lines strings.Builder
	for _, n := range names {
		lines.WriteString("0 " + strings.Repeat("0", 40) + "\t" + n + "\n")
		for stage, hash := range []string{two, one, two} {
			lines.WriteString("100644 " + hash + " " + string(rune('1'+stage)) + "\t" + n + "\n")
		}
	}
	c := exec.Command("git", "update-index", "--index-info")
	c.Dir, c.Stdin = dir, strings.NewReader(lines.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// The sides of an open merge stay in the index until its file is staged, and are not committed,
// even if another file is staged and committed.
func TestOpenMergeIsKept(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	unmerge(t, dir, "a.txt", "src/app.go")
	before := git(t, dir, "ls-files", "-u")
	put(t, dir, map[string]string{"new": "new\n"})
	for tool, a := range map[string]args{"git_add": {"paths": []string{"new"}}, "git_commit": {"message": "x", "allowEmpty": true}} {
		if words := fails(t, b, tool, a); !strings.Contains(words, "is not merged") {
			t.Errorf("%s: %s", tool, words)
		}
	}
	if words := fails(t, b, "git_commit", args{"message": "x", "all": true}); !strings.Contains(words, "is not merged") {
		t.Error(words)
	}
	if after := git(t, dir, "ls-files", "-u"); after != before {
		t.Errorf("%s\nbefore:\n%s", after, before)
	}
	call[repo.Status](t, b, "git_add", args{"paths": []string{"a.txt", "src/app.go"}})
	call[repo.Commit](t, b, "git_commit", args{"message": "x", "allowEmpty": true})
	if git(t, dir, "ls-files", "-u") != "" || git(t, dir, "show", "HEAD:a.txt") != "one\n2" {
		t.Error(git(t, dir, "status"))
	}
}

// A file that is marked with git add -N is not staged, and must not be committed without its
// content.
func TestIntentToAdd(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	put(t, dir, map[string]string{"ita": "text\n", "empty": "", "other": "o\n"})
	git(t, dir, "rm", "-q", "--cached", "src/app.go")
	git(t, dir, "add", "-N", "ita", "empty", "src/app.go")
	same := func() {
		t.Helper()
		if got, want := ours(t, call[repo.Status](t, b, "git_status", nil)), porcelain(t, dir); !slices.Equal(got, want) {
			t.Errorf("%q, git: %q", got, want)
		}
	}
	same()
	call[repo.Status](t, b, "git_add", args{"paths": []string{"other"}})
	same()
	if words := fails(t, b, "git_commit", args{"message": "x"}); !strings.Contains(words, "git add -N") {
		t.Error(words)
	}
	call[repo.Commit](t, b, "git_commit", args{"message": "x", "all": true})
	if git(t, dir, "show", "HEAD:ita") != "text" || git(t, dir, "status", "--porcelain") != "" {
		t.Error(git(t, dir, "status"))
	}
}

// A file that the index marks to be skipped is handled as git does: only a call that names it
// stages it.
func TestSkipWorktree(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	git(t, dir, "update-index", "--skip-worktree", "a.txt")
	put(t, dir, map[string]string{"a.txt": "local\n", "new": "new\n"})
	if got, want := ours(t, call[repo.Status](t, b, "git_status", nil)), porcelain(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q, git: %q", got, want)
	}
	call[repo.Status](t, b, "git_add", args{"paths": []string{"."}})
	call[repo.Commit](t, b, "git_commit", args{"message": "x", "all": true})
	if git(t, dir, "show", "HEAD:a.txt") != "one\n2" || !strings.Contains(git(t, dir, "ls-files", "-v"), "S a.txt") {
		t.Error(git(t, dir, "ls-files", "-v"))
	}
	// It is not lost if a commit has a different one.
	if words := fails(t, b, "git_checkout", args{"revision": "side"}); !strings.Contains(words, "uncommitted") {
		t.Error(words)
	}
	if git(t, dir, "status", "--porcelain") != "" || readFile(t, dir, "a.txt") != "local\n" || readFile(t, dir, "new") != "new\n" {
		t.Error(git(t, dir, "status"))
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}
