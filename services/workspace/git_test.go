package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// git runs the git program, to prepare repositories for the tools and to check their results.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_ALLOW_PROTOCOL=file")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository makes a repository of one commit in a directory.
func repository(t testing.TB, elements ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(elements...)
	put(t, dir, map[string]string{"a.txt": "mine\n"})
	git(t, dir, "init", "-q", "-b", "main", "--template=")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "mine")
	return dir
}

// project is a root with a repository of two commits and two branches.
func project(t *testing.T) (dir string, b *servicetest.Bus) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	put(t, dir, map[string]string{"a.txt": "one\ntwo\n", "src/app.go": "package app\n", ".gitignore": "*.log\n"})
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first")
	git(t, dir, "branch", "side")
	put(t, dir, map[string]string{"a.txt": "one\n2\n"})
	git(t, dir, "commit", "-qam", "second\n\nwith a body")
	return dir, start(t, "main="+dir)
}

func TestStatusAddCommit(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	s := call[repo.Status](t, b, "git_status", nil)
	if s.Branch != "main" || s.Head != git(t, dir, "rev-parse", "HEAD") || len(s.Changes) != 0 || s.Repository != "main" {
		t.Errorf("%+v", s)
	}
	put(t, dir, map[string]string{"a.txt": "one\nthree\n", "new/b.txt": "b\n", "x.log": "ignored"})
	if err := os.Remove(filepath.Join(dir, "src/app.go")); err != nil {
		t.Fatal(err)
	}
	s = call[repo.Status](t, b, "git_status", nil)
	want := []repo.Change{{Path: "main/a.txt", Worktree: "modified"}, {Path: "main/new/b.txt", Worktree: "untracked"}, {Path: "main/src/app.go", Worktree: "deleted"}}
	if !slices.Equal(s.Changes, want) {
		t.Errorf("%+v", s.Changes)
	}
	if s := call[repo.Status](t, b, "git_status", args{"path": "new"}); len(s.Changes) != 1 {
		t.Errorf("%+v", s)
	}
	fails(t, b, "git_commit", args{"message": "nothing"})
	s = call[repo.Status](t, b.As("bob", ""), "git_add", args{"paths": []string{"a.txt", "main/new", "src"}})
	want = []repo.Change{{Path: "main/a.txt", Staged: "modified"}, {Path: "main/new/b.txt", Staged: "added"}, {Path: "main/src/app.go", Staged: "deleted"}}
	if !slices.Equal(s.Changes, want) || git(t, dir, "diff", "--cached", "--name-status") != "M\ta.txt\nA\tnew/b.txt\nD\tsrc/app.go" {
		t.Errorf("%+v\n%s", s.Changes, git(t, dir, "status"))
	}
	if d := call[workspace.DiffOut](t, b, "git_diff", args{"staged": true}); d.Files != 3 || !strings.Contains(d.Diff, "-2\n+three\n") || !strings.Contains(d.Diff, "+++ /dev/null") {
		t.Errorf("%+v", d)
	}
	c := call[repo.Commit](t, b.As("bob", ""), "git_commit", args{"message": "third"})
	if git(t, dir, "log", "-1", "--format=%H %an %s") != c.Hash+" bob third" || git(t, dir, "status", "--porcelain") != "" || git(t, dir, "fsck", "--strict") != "" {
		t.Errorf("%+v\n%s", c, git(t, dir, "log", "-1"))
	}
	put(t, dir, map[string]string{"a.txt": "all\n"})
	c = call[repo.Commit](t, b, "git_commit", args{"message": "fourth", "all": true, "author": "Żaneta Ü <z@example.com>"})
	if c.Author != "Żaneta Ü" || git(t, dir, "show", "HEAD:a.txt") != "all" {
		t.Errorf("%+v", c)
	}
	for words, a := range map[string]args{"message is empty": {"message": " "}, "author is not valid": {"message": "x", "author": "Ada <a> <b>"}, "nothing is staged": {"message": "x"}} {
		if got := fails(t, b, "git_commit", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	if got := fails(t, b, "git_add", args{"paths": []string{"none"}}); !strings.Contains(got, "does not exist") {
		t.Error(got)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	first, second := git(t, dir, "rev-parse", "HEAD~1"), git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "tag", "-a", "v1", "-m", "tag", first)
	log := call[workspace.LogOut](t, b, "git_log", nil)
	if len(log.Commits) != 2 || log.Commits[0].Hash != second || log.Commits[0].Message != "second\n\nwith a body\n" || log.Commits[1].Hash != first || log.Commits[0].Email != "ada@example.com" {
		t.Errorf("%+v", log)
	}
	if log := call[workspace.LogOut](t, b, "git_log", args{"path": "src"}); len(log.Commits) != 1 || log.Commits[0].Hash != first {
		t.Errorf("%+v", log)
	}
	if log := call[workspace.LogOut](t, b, "git_log", args{"limit": 1}); len(log.Commits) != 1 || log.NextSkip != 1 {
		t.Errorf("%+v", log)
	}
	const change = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
	for _, revision := range []string{"", "HEAD", "main", second, second[:10], "refs/heads/main"} {
		if s := call[workspace.ShowOut](t, b, "git_show", args{"revision": revision}); s.Commit.Hash != second || s.Diff != change || s.Files != 1 {
			t.Errorf("%s: %s", revision, text(s))
		}
	}
	if s := call[workspace.ShowOut](t, b, "git_show", args{"revision": "v1"}); s.Commit.Hash != first || s.Files != 3 {
		t.Errorf("%s", text(s))
	}
	if s := call[workspace.ShowOut](t, b, "git_show", args{"revision": "HEAD~1", "path": "a.txt", "content": true}); *s.Text != "one\ntwo\n" {
		t.Errorf("%s", text(s))
	}
	for _, a := range []args{{"from": "side", "to": "main"}, {"from": "HEAD^"}} {
		if d := call[workspace.DiffOut](t, b, "git_diff", a); d.Diff != change {
			t.Errorf("%v: %+v", a, d)
		}
	}
	put(t, dir, map[string]string{"a.txt": "ONE\n2\n"})
	if d := call[workspace.DiffOut](t, b, "git_diff", nil); d.Diff != "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n 2\n" {
		t.Errorf("%+v", d)
	}
	blame := call[workspace.BlameOut](t, b, "git_blame", args{"path": "a.txt"})
	if len(blame.Lines) != 2 || blame.Lines[0].Commit != first || blame.Lines[1].Commit != second || blame.Lines[1].Text != "2" {
		t.Errorf("%+v", blame)
	}
	if blame := call[workspace.BlameOut](t, b, "git_blame", args{"path": "a.txt", "limit": 1}); len(blame.Lines) != 1 || blame.NextLine != 2 {
		t.Errorf("%+v", blame)
	}
	branches := call[workspace.BranchesOut](t, b, "git_branches", nil)
	if len(branches.Branches) != 3 || branches.Branches[0] != (repo.Branch{Name: "main", Kind: "branch", Commit: second, Current: true}) || branches.Branches[2].Kind != "tag" {
		t.Errorf("%+v", branches)
	}
	for tool, a := range map[string]args{"git_show": {"revision": "none"}, "git_log": {"revision": "HEAD~9"}, "git_blame": {"path": "none"}, "git_diff": {"to": "main"}} {
		fails(t, b, tool, a)
	}
}

func TestCheckout(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	git(t, dir, "checkout", "-q", "side")
	put(t, dir, map[string]string{"only-side.txt": "side\n", "dir/x": "x\n"})
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "side")
	put(t, dir, map[string]string{"untracked.txt": "mine", "keep.log": "ignored"})
	s := call[repo.Status](t, b, "git_checkout", args{"revision": "main"})
	if s.Branch != "main" || get(t, dir, "a.txt") != "one\n2\n" || git(t, dir, "status", "--porcelain") != "?? untracked.txt" {
		t.Errorf("%+v\n%s", s, git(t, dir, "status"))
	}
	if _, err := os.Stat(filepath.Join(dir, "only-side.txt")); err == nil {
		t.Error("a file of the other branch is still there")
	}
	if get(t, dir, "untracked.txt") != "mine" || get(t, dir, "keep.log") != "ignored" {
		t.Error("a file that is not tracked is gone")
	}
	// Uncommitted changes are not lost.
	before := git(t, dir, "rev-parse", "--abbrev-ref", "HEAD")
	for _, inTheWay := range []map[string]string{{"only-side.txt": "mine"}, {"dir": "a file"}, {"a.txt": "changed"}} {
		put(t, dir, inTheWay)
		fails(t, b, "git_checkout", args{"revision": "side"})
		for name, text := range inTheWay {
			if get(t, dir, name) != text || git(t, dir, "rev-parse", "--abbrev-ref", "HEAD") != before {
				t.Errorf("%s was lost, or HEAD moved", name)
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		git(t, dir, "checkout", "-q", "--", ".")
	}
	if s := call[repo.Status](t, b, "git_checkout", args{"revision": "side"}); s.Branch != "side" || get(t, dir, "dir/x") != "x\n" {
		t.Errorf("%+v", s)
	}
	put(t, dir, map[string]string{"a.txt": "carried"})
	if s := call[repo.Status](t, b, "git_checkout", args{"revision": "feature/new", "create": true}); s.Branch != "feature/new" || get(t, dir, "a.txt") != "carried" {
		t.Errorf("%+v", s)
	}
	git(t, dir, "checkout", "-q", "--", ".")
	if s := call[repo.Status](t, b, "git_checkout", args{"revision": "HEAD~1"}); s.Branch != "" || s.Head != git(t, dir, "rev-parse", "side~1") {
		t.Errorf("%+v", s)
	}
	for words, a := range map[string]args{
		"no revision": {"revision": "none"}, "is not a valid": {"revision": "-f", "create": true}, "already": {"revision": "main", "create": true}, "valid branch name": {"revision": "a..b", "create": true},
	} {
		if got := fails(t, b, "git_checkout", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	put(t, dir, map[string]string{".git/index.lock": ""})
	if got := fails(t, b, "git_checkout", args{"revision": "main"}); !strings.Contains(got, "another git") {
		t.Error(got)
	}
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "project")
	put(t, dir, map[string]string{"a.txt": "one\n"})
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first")
	b := start(t, "main="+top)
	made := call[workspace.BranchesOut](t, b, "git_worktree", args{"path": "project", "directory": "trees/fix", "branch": "fix", "create": true})
	if len(made.Worktrees) != 1 || made.Worktrees[0] != (repo.Tree{Path: "main/trees/fix", Branch: "fix"}) || get(t, top, "trees/fix/a.txt") != "one\n" {
		t.Errorf("%+v", made)
	}
	tree := filepath.Join(top, "trees/fix")
	if git(t, tree, "status", "--porcelain", "-b") != "## fix" || !strings.Contains(git(t, dir, "worktree", "list"), tree) {
		t.Errorf("%s", git(t, dir, "worktree", "list"))
	}
	// The tools work in it, and so does git.
	put(t, tree, map[string]string{"a.txt": "two\n"})
	call[repo.Status](t, b, "git_add", args{"paths": []string{"trees/fix/a.txt"}})
	call[repo.Commit](t, b, "git_commit", args{"path": "trees/fix", "message": "in the worktree"})
	if git(t, tree, "status", "--porcelain", "-b") != "## fix" || git(t, dir, "status", "--porcelain", "-b") != "## main" || git(t, dir, "show", "fix:a.txt") != "two" {
		t.Errorf("%s", git(t, tree, "status"))
	}
	git(t, dir, "worktree", "add", "-q", filepath.Join(top, "trees/own"), "-b", "own")
	if s := call[repo.Status](t, b, "git_status", args{"path": "trees/own"}); s.Branch != "own" || len(s.Changes) != 0 {
		t.Errorf("%+v", s)
	}
	for words, a := range map[string]args{
		"another worktree": {"path": "project", "directory": "trees/x", "branch": "fix"}, "already exists": {"path": "project", "directory": "trees/fix", "branch": "y", "create": true},
		"no branch": {"path": "project", "directory": "trees/x", "branch": "none"}, "cannot become a worktree": {"path": "project", "directory": "project/.git/x", "branch": "z", "create": true},
		"is not a worktree": {"path": "project", "directory": "project", "remove": true},
	} {
		if got := fails(t, b, "git_worktree", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	if got := fails(t, b, "git_checkout", args{"path": "trees/own", "revision": "fix"}); !strings.Contains(got, "another worktree") {
		t.Error(got)
	}
	put(t, tree, map[string]string{"new.txt": "not committed"})
	if got := fails(t, b, "git_worktree", args{"path": "project", "directory": "trees/fix", "remove": true}); !strings.Contains(got, "not committed") {
		t.Error(got)
	}
	if err := os.Remove(filepath.Join(tree, "new.txt")); err != nil {
		t.Fatal(err)
	}
	left := call[workspace.BranchesOut](t, b, "git_worktree", args{"path": "project", "directory": "trees/fix", "remove": true})
	if _, err := os.Stat(tree); err == nil || len(left.Worktrees) != 1 || strings.Contains(git(t, dir, "worktree", "list"), tree) {
		t.Errorf("%+v\n%s", left, git(t, dir, "worktree", "list"))
	}
}

// The files of a repository inside the worktree do not belong to the outer one: they are not staged
// by it, and not lost with it.
func TestRepositoryInside(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	call[workspace.BranchesOut](t, b, "git_worktree", args{"directory": "wt/one", "branch": "one", "create": true})
	put(t, dir, map[string]string{"wt/note": "mine"})
	want := []repo.Change{{Path: "main/wt/note", Worktree: "untracked"}, {Path: "main/wt/one/", Worktree: "untracked"}}
	if s := call[repo.Status](t, b, "git_status", nil); !slices.Equal(s.Changes, want) {
		t.Errorf("%+v", s.Changes)
	}
	if s := call[repo.Status](t, b, "git_add", args{"paths": []string{"main"}}); s.Changes[0].Staged != "added" || git(t, dir, "diff", "--cached", "--name-only") != "wt/note" {
		t.Errorf("%+v", s)
	}
	if s := call[repo.Status](t, b, "git_status", args{"path": "wt/one"}); s.Repository != "main/wt/one" || s.Branch != "one" || len(s.Changes) != 0 {
		t.Errorf("%+v", s)
	}
	git(t, dir, "init", "-q", "wt/one/inner")
	put(t, dir, map[string]string{"wt/one/inner/x": "mine"})
	if got := fails(t, b, "git_worktree", args{"directory": "wt/one", "remove": true}); !strings.Contains(got, "main/wt/one/inner") {
		t.Error(got)
	}
	if got := fails(t, b, "git_add", args{"paths": []string{"a.txt", "wt/one"}}); !strings.Contains(got, "main/wt/one is a separate repository") {
		t.Error(got)
	}
}

// A repository without a commit has a status, and a first commit can be made.
func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	put(t, dir, map[string]string{"a": "a\n"})
	b := start(t, "main="+dir)
	if s := call[repo.Status](t, b, "git_status", nil); s.Branch != "main" || s.Head != "" || len(s.Changes) != 1 {
		t.Errorf("%+v", s)
	}
	fails(t, b, "git_log", nil)
	call[repo.Status](t, b, "git_add", args{"paths": []string{"main"}})
	if d := call[workspace.DiffOut](t, b, "git_diff", args{"staged": true}); d.Files != 1 {
		t.Errorf("%+v", d)
	}
	call[repo.Commit](t, b, "git_commit", args{"message": "first"})
	if git(t, dir, "log", "--format=%s") != "first" {
		t.Error(git(t, dir, "log"))
	}
	if got := fails(t, start(t, "main="+t.TempDir()), "git_status", nil); !strings.Contains(got, "not in a git repository") {
		t.Error(got)
	}
}
