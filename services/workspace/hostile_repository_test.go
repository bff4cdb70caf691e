package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace"
	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// If a HEAD or a branch leads to a file that is not a reference, that file is neither shown nor
// changed.
func TestHostileHeads(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	put(t, top, map[string]string{"out/secret.txt": secret})
	files := map[string]string{}
	for i, head := range []string{
		"refs/heads/../../config", "refs/heads/../../index", "refs/heads/../../hooks/pre-commit", "config", "/config", "refs/./heads/../../config", "refs/heads/../../../a.txt",
		"refs/heads/../../../../out/secret.txt", "refs/heads/..\\..\\config", "refs/heads/a/../../../config", "../config", "hooks/pre-commit", "HEAD/../config", "refs/heads/x.lock",
	} {
		name := string(rune('a' + i))
		dir := filepath.Join(top, "root", name)
		put(t, dir, map[string]string{"a.txt": "mine\n", ".git/config": "[core]\n\tbare = false\n", ".git/objects/x": "", ".git/refs/heads/evil": "ref: " + head + "\n", ".git/HEAD": "ref: " + head + "\n"})
		files[name] = head
	}
	b := start(t, "main="+filepath.Join(top, "root"))
	for name, head := range files {
		said := everyGitTool(t, b, name)
		said += b.Call("git_log", args{"path": name, "revision": "evil"}).Text + b.Call("git_checkout", args{"path": name, "revision": "evil"}).Text
		if strings.Contains(said, secret) || strings.Contains(said, "its log names") || strings.Contains(said, top) {
			t.Errorf("%s: %s", head, said)
		}
		dir := filepath.Join(top, "root", name)
		if get(t, dir, ".git/config") != "[core]\n\tbare = false\n" || get(t, dir, "a.txt") != "mine\n" || get(t, top, "out/secret.txt") != secret {
			t.Errorf("%s: something was changed", head)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".git/hooks/pre-commit")); err == nil {
			t.Errorf("%s: a hook was written", head)
		}
		_ = os.RemoveAll(filepath.Join(top, "root", "w"))
	}
}

// A repository is recognised by its content, whatever its name: nothing in it is changed, and no
// directory can become one.
func TestRepositoriesByContent(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	put(t, top, map[string]string{"a.txt": "x", "work/a.txt": "x", "made/HEAD": "ref: refs/heads/main", "made/refs/x": "", "half/objects/x": "", "tree/HEAD": "", "tree/objects/x": ""})
	git(t, top, "init", "-q", "--bare", "bare.git")
	git(t, top, "init", "-q", "--bare", "deep/bare")
	git(t, filepath.Join(top, "work"), "init", "-q", "-b", "main", "--separate-git-dir", filepath.Join(top, "elsewhere"))
	git(t, filepath.Join(top, "work"), "add", ".")
	git(t, filepath.Join(top, "work"), "commit", "-qm", "first")
	before := snapshot(t, top)
	b := start(t, "main="+top)
	for _, path := range []string{
		"bare.git/config", "bare.git/hooks/pre-commit", "bare.git/new", "deep/bare/config", "deep/bare/info/attributes", "elsewhere/config", "elsewhere/hooks/post-checkout", "elsewhere/a/b/c",
		"bare.git/worktrees/x/config.worktree", "made/objects", "made/objects/pack/x", "made/Objects/x", "tree/refs/heads/main",
	} {
		for tool, a := range map[string]args{
			"filesystem_write": {"path": path, "text": "[core]\n\tfsmonitor = evil\n"}, "filesystem_move": {"from": "a.txt", "to": path},
			"filesystem_edit": {"path": path, "edits": []args{{"oldText": "bare", "newText": "x"}}}, "filesystem_delete": {"path": path, "recursive": true},
		} {
			if words := fails(t, b, tool, a); tool == "filesystem_write" && !strings.Contains(words, "git directory") {
				t.Errorf("%s %s: %s", tool, path, words)
			}
		}
	}
	for _, path := range []string{"bare.git", "deep", "deep/bare", "elsewhere", "elsewhere/refs"} {
		fails(t, b, "filesystem_delete", args{"path": path, "recursive": true})
	}
	fails(t, b, "filesystem_move", args{"from": "elsewhere", "to": "another"})
	fails(t, b, "filesystem_move", args{"from": "half/objects", "to": "made/objects"})
	fails(t, b, "git_worktree", args{"path": "work", "directory": "bare.git/hooks2", "branch": "w", "create": true})
	if after := snapshot(t, top); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
	// The git tools work there, and a directory that only resembles a repository is an ordinary
	// directory.
	call[repo.Commit](t, b, "git_commit", args{"path": "work", "message": "second", "allowEmpty": true})
	call[workspace.WriteOut](t, b, "filesystem_write", args{"path": "half/HEAD", "text": "x"})
}

// A line that is longer than the part read of it does not end the file.
func TestLongLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.txt": "first\n" + strings.Repeat("é", 500_000) + "\nlast\n"})
	b := start(t, "main="+dir)
	var read []string
	for line := 1; line > 0 && len(read) < 5; {
		out := call[struct {
			Text     string `json:"text"`
			NextLine int    `json:"nextLine"`
		}](t, b, "filesystem_read", args{"path": "a.txt", "startLine": line, "maxBytes": 1001})
		read = append(read, out.Text)
		line = out.NextLine
	}
	if strings.Join(read, "|") != "first\n|"+strings.Repeat("é", 500)+"|last\n" {
		t.Errorf("%.2000q", read)
	}
}
