package workspace_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// everyGitTool calls each git tool, and returns all their texts.
func everyGitTool(t *testing.T, b *servicetest.Bus, path string) string {
	t.Helper()
	var all strings.Builder
	for _, c := range []struct {
		tool string
		a    args
	}{
		{"git_status", args{}}, {"git_log", args{}}, {"git_diff", args{}}, {"git_diff", args{"staged": true}}, {"git_diff", args{"from": "HEAD"}}, {"git_show", args{}},
		{"git_show", args{"path": path + "/a.txt", "content": true}}, {"git_blame", args{"path": path + "/a.txt"}}, {"git_branches", args{}},
		{"git_add", args{"paths": []string{path + "/"}}}, {"git_commit", args{"message": "m", "all": true, "allowEmpty": true}},
		{"git_checkout", args{"revision": "made", "create": true}}, {"git_checkout", args{"revision": "main"}},
		{"git_worktree", args{"directory": "w", "branch": "w", "create": true}},
	} {
		if _, ok := c.a["path"]; !ok && c.tool != "git_add" {
			c.a["path"] = path
		}
		r := b.Call(c.tool, c.a)
		fmt.Fprintf(&all, "%s %v: %s %v\n", c.tool, c.a, r.Text, r.Err)
	}
	return all.String()
}

// Nothing that a repository configures for git to run is run, neither when it is read nor when it
// is changed.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, marks := filepath.Join(top, "root", "r"), filepath.Join(top, "marks")
	put(t, dir, map[string]string{"a.txt": "one\n", "b.bin": "b\n"})
	put(t, marks, map[string]string{"here": ""})
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "first")
	program := filepath.Join(top, "evil")
	put(t, top, map[string]string{"evil": "#!/bin/sh\ntouch " + marks + "/ran-$$\ncat\n", "evil.gitconfig": "[core]\n\tfsmonitor = " + program + "\n[alias]\n\tstatus = !" + program + "\n"})
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"core.fsmonitor": program, "core.hooksPath": top + "/hooks", "core.pager": program, "core.editor": program, "core.sshCommand": program, "core.gitProxy": program, "core.askPass": program,
		"core.attributesFile": top + "/attributes", "diff.external": program, "diff.evil.textconv": program, "diff.evil.command": program, "filter.evil.clean": program,
		"filter.evil.smudge": program, "filter.evil.process": program, "filter.evil.required": "true", "include.path": top + "/evil.gitconfig", "gpg.program": program, "commit.gpgSign": "true",
		"credential.helper": "!" + program, "merge.evil.driver": program, "remote.origin.url": "ext::" + program, "remote.origin.uploadpack": program, "protocol.ext.allow": "always", "alias.status": "!" + program,
		"interactive.diffFilter": program, "sequence.editor": program, "uploadpack.packObjectsHook": program, "core.alternateRefsCommand": program, "gc.recentObjectsHook": program, "init.templateDir": top, "includeIf.gitdir:/.path": top + "/evil.gitconfig",
	} {
		git(t, dir, "config", name, value)
	}
	put(t, dir, map[string]string{".gitattributes": "*.bin filter=evil diff=evil merge=evil\n"})
	for _, hooks := range []string{filepath.Join(top, "hooks"), filepath.Join(dir, ".git/hooks")} {
		for _, hook := range []string{"pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-rewrite"} {
			put(t, hooks, map[string]string{hook: "#!/bin/sh\ntouch " + marks + "/hook-$$\n"})
			if err := os.Chmod(filepath.Join(hooks, hook), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, dir, map[string]string{"a.txt": "two\n", "b.bin": "c\n"})
	b := start(t, "main="+filepath.Join(top, "root"))
	said := everyGitTool(t, b, "r")
	if entries, err := os.ReadDir(marks); err != nil || len(entries) != 1 {
		t.Errorf("something has run: %v %v", entries, err)
	}
	// A file with a filter is not committed without that filter; a file without one is committed.
	if !strings.Contains(said, "main/r/b.bin has the filter evil") {
		t.Error(said)
	}
	if s := call[repo.Status](t, b, "git_add", args{"paths": []string{"r/a.txt"}}); s.Changes[1].Staged != "modified" {
		t.Errorf("%+v", s)
	}
	call[repo.Commit](t, b, "git_commit", args{"path": "r", "message": "without hooks"})
	if entries, _ := os.ReadDir(marks); len(entries) != 1 {
		t.Error("something has run")
	}
}

// If parts of a repository lie outside of the root, they are neither read nor changed.
func TestOutsideParts(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	out := filepath.Join(top, "out")
	put(t, out, map[string]string{"a.txt": secret, "secret.txt": secret})
	git(t, out, "init", "-q", "-b", "main")
	git(t, out, "add", ".")
	git(t, out, "commit", "-qm", secret)
	blob := git(t, out, "rev-parse", "HEAD:a.txt")
	root := filepath.Join(top, "root")
	make := func(name string) string { return repository(t, root, name) }
	link := func(to, at string) {
		t.Helper()
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"gitfile": out + "/.git", "gitfile-relative": "../../out/.git", "gitfile-root": "/", "gitfile-dots": root + "/x/../../out/.git"} {
		put(t, filepath.Join(root, name), map[string]string{".git": "gitdir: " + to + "\n", "a.txt": "x"})
	}
	put(t, filepath.Join(root, "linked"), map[string]string{"a.txt": "x"})
	link(out+"/.git", filepath.Join(root, "linked", ".git"))
	put(t, filepath.Join(root, "linked-relative"), map[string]string{"a.txt": "x"})
	link("../../out/.git", filepath.Join(root, "linked-relative", ".git"))
	for _, part := range []string{"objects", "refs", "config", "HEAD", "index", "logs", "info", "packed-refs"} {
		dir := make("part-" + part)
		link(out+"/.git/"+part, filepath.Join(dir, ".git", part))
	}
	put(t, make("commondir"), map[string]string{".git/commondir": out + "/.git\n"})
	put(t, make("alternates"), map[string]string{".git/objects/info/alternates": out + "/.git/objects\n", ".git/refs/heads/main": git(t, out, "rev-parse", "HEAD") + "\n"})
	put(t, make("alternates-relative"), map[string]string{".git/objects/info/alternates": "../../../../out/.git/objects\n", ".git/refs/heads/main": git(t, out, "rev-parse", "HEAD") + "\n"})
	put(t, make("ref-outside"), map[string]string{".git/HEAD": "ref: ../../../out/.git/refs/heads/main\n"})
	put(t, make("ref-absolute"), map[string]string{".git/HEAD": "ref: " + out + "/.git/refs/heads/main\n"})
	git(t, make("core-worktree"), "config", "core.worktree", out)
	git(t, make("core-worktree-relative"), "config", "core.worktree", "../../../out")
	outsideTree := make("worktree-gitdir")
	git(t, outsideTree, "worktree", "add", "-q", filepath.Join(top, "out-tree"), "-b", "out-tree")
	put(t, make("submodule"), map[string]string{".gitmodules": "[submodule \"../../../../out\"]\n\tpath = sub\n\turl = " + out + "\n"})
	put(t, make("exclude"), map[string]string{".git/info/exclude": "../out\n"})
	// A commit with a link to the outside, and a file in the directory that it leads to.
	tree := make("tree-link")
	put(t, tree, map[string]string{".git/refs/heads/made": commitOf(t, tree, entry("100644", "a.txt", hashObject(t, tree, "x"))+entry("120000", "link", hashObject(t, tree, "../../out"))) + "\n"})

	b := start(t, "main="+root)
	before := snapshot(t, out)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		said := everyGitTool(t, b, e.Name())
		said += b.Call("git_show", args{"path": e.Name() + "/a.txt", "revision": blob, "content": true}).Text
		// Text from the repository itself may be shown.
		itself := e.Name() == "submodule" || e.Name() == "ref-absolute"
		if strings.Contains(said, secret) || strings.Contains(said, "its log names call") || strings.Contains(said, out) && !itself {
			t.Errorf("%s tells what is outside:\n%s", e.Name(), said)
		}
		_ = os.RemoveAll(filepath.Join(root, "w"))
	}
	if after := snapshot(t, out); after != before {
		t.Errorf("something outside was changed:\n%s\nwas\n%s", after, before)
	}
}

func hashObject(t *testing.T, dir, content string) string {
	t.Helper()
	put(t, dir, map[string]string{".git/new": content})
	return git(t, dir, "hash-object", "-w", "--no-filters", ".git/new")
}

// commitOf makes a commit of a tree with these entries.
func commitOf(t *testing.T, dir, entries string) string {
	t.Helper()
	return object(t, dir, "commit", "tree "+raw(t, dir, entries)+"\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nmade\n")
}

// A commit that would write into .git, through a name or a link, is not checked out.
func TestCheckoutIntoGit(t *testing.T) {
	t.Parallel()
	for name, evil := range map[string]func(t *testing.T, dir string) string{
		"name": func(t *testing.T, dir string) string { return commitOf(t, dir, entry("40000", ".git", hooks(t, dir))) },
		"case": func(t *testing.T, dir string) string { return commitOf(t, dir, entry("40000", ".GIT", hooks(t, dir))) },
		"ntfs": func(t *testing.T, dir string) string { return commitOf(t, dir, entry("40000", "git~1", hooks(t, dir))) },
		"link twice": func(t *testing.T, dir string) string {
			return commitOf(t, dir, entry("120000", "x", hashObject(t, dir, ".git"))+entry("40000", "x", hooks(t, dir)))
		},
		"dots": func(t *testing.T, dir string) string { return commitOf(t, dir, entry("40000", "..", hooks(t, dir))) },
		"slash": func(t *testing.T, dir string) string {
			return commitOf(t, dir, entry("100644", ".git/hooks/pre-commit", hashObject(t, dir, "evil")))
		},
		"above": func(t *testing.T, dir string) string {
			return commitOf(t, dir, entry("100644", "../../owned", hashObject(t, dir, "evil")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dir := repository(t, top, "root")
			put(t, dir, map[string]string{".git/refs/heads/evil": evil(t, dir) + "\n"})
			r := start(t, "main="+dir).Call("git_checkout", args{"revision": "evil"})
			if r.Err != nil {
				t.Error(r.Err)
			}
			for _, p := range []string{".git/hooks/pre-commit", "hooks/pre-commit", "../hooks/pre-commit", "../owned", "../../owned"} {
				if _, err := os.Stat(filepath.Join(dir, p)); err == nil {
					t.Errorf("%s was written", p)
				}
			}
		})
	}
}

// hooks is a tree with a hook.
func hooks(t *testing.T, dir string) string {
	t.Helper()
	hook := raw(t, dir, entry("100755", "pre-commit", hashObject(t, dir, "#!/bin/sh\n")))
	return raw(t, dir, entry("40000", "hooks", hook))
}

func entry(mode, name, hash string) string {
	id, err := hex.DecodeString(hash)
	if err != nil || len(id) != 20 {
		panic("no hash: " + hash)
	}
	return mode + " " + name + "\x00" + string(id)
}

func raw(t *testing.T, dir, entries string) string { return object(t, dir, "tree", entries) }

// object writes a loose object with content that git itself would not write.
func object(t *testing.T, dir, kind, content string) string {
	t.Helper()
	return looseAs(t, dir, fmt.Sprintf("%s %d\x00", kind, len(content)), strings.NewReader(content))
}

func looseAs(t *testing.T, dir, header string, content io.Reader) string {
	t.Helper()
	var packed bytes.Buffer
	z, _ := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	sum := sha1.New()
	if _, err := io.Copy(io.MultiWriter(z, sum), io.MultiReader(strings.NewReader(header), content)); err != nil {
		t.Fatal(err)
	}
	_ = z.Close()
	hash := fmt.Sprintf("%x", sum.Sum(nil))
	put(t, dir, map[string]string{".git/objects/" + hash[:2] + "/" + hash[2:]: packed.String()})
	return hash
}

// Objects that would fill the memory, broken objects, and names that look like options cause an
// error message, and the service survives.
func TestHostileObjects(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	make := func(name string) string { return repository(t, top, name) }
	zeros := func(n int64) io.Reader { return io.LimitReader(zero{}, n) }
	dir := make("bomb")
	put(t, dir, map[string]string{".git/refs/heads/main": looseAs(t, dir, "commit 100\x00", zeros(33<<20)) + "\n"})
	dir = make("bomb-said")
	put(t, dir, map[string]string{".git/refs/heads/main": looseAs(t, dir, fmt.Sprintf("commit %d\x00", int64(1)<<40), zeros(10)) + "\n"})
	dir = make("no-header")
	put(t, dir, map[string]string{".git/refs/heads/main": looseAs(t, dir, "", zeros(64)) + "\n"})
	dir = make("blob-bomb")
	put(t, dir, map[string]string{".git/refs/heads/main": commitOf(t, dir, entry("100644", "a.txt", looseAs(t, dir, "blob 5\x00", zeros(33<<20)))) + "\n"})
	dir = make("self")
	put(t, dir, map[string]string{".git/refs/heads/main": "ref: refs/heads/main\n"})
	put(t, make("broken-index"), map[string]string{".git/index": "DIRC\x00\x00\x00\x02\xff\xff\xff\xff" + strings.Repeat("\xff", 200)})
	put(t, make("broken-config"), map[string]string{".git/config": "[core\n\x00[[[" + strings.Repeat("[a \"b\"]\n", 10000)})
	put(t, make("broken-head"), map[string]string{".git/HEAD": strings.Repeat("x", 100000)})
	put(t, make("broken-pack"), map[string]string{".git/objects/pack/pack-0000000000000000000000000000000000000000.pack": "PACK\x00\x00\x00\x02\xff\xff\xff\xff", ".git/objects/pack/pack-0000000000000000000000000000000000000000.idx": "\xfftOc\x00\x00\x00\x02" + strings.Repeat("\xff", 2000)})
	put(t, make("extension"), map[string]string{".git/config": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworse = true\n"})
	dir = make("fifo")
	for _, p := range []string{"pipe", ".git/refs/heads/pipe", ".git/commondir", ".git/packed-refs", ".gitmodules"} {
		if err := syscall.Mkfifo(filepath.Join(dir, p), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir = make("options")
	head := git(t, dir, "rev-parse", "HEAD")
	put(t, dir, map[string]string{".git/refs/heads/--output=owned": head + "\n", ".git/refs/heads/-f": head + "\n", "--all": "x", ".git/refs/heads/$(touch owned)": head + "\n"})

	b := start(t, "main="+top)
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "bomb") {
			continue // each call inflates it; below
		}
		said := everyGitTool(t, b, e.Name())
		if strings.Contains(said, "its log names call") || strings.Contains(said, top) || strings.Contains(said, "goroutine") {
			t.Errorf("%s: %s", e.Name(), said)
		}
		_ = os.RemoveAll(filepath.Join(top, "w"))
	}
	for _, name := range []string{"bomb", "bomb-said", "blob-bomb"} {
		fails(t, b, "git_show", args{"path": name})
	}
	for _, revision := range []string{"--output=owned", "-f", "--help", "$(touch owned)", "a..b", "HEAD@{1}", ":/x", "main:a.txt", strings.Repeat("~", 300), "HEAD" + strings.Repeat("^", 250)} {
		for _, tool := range []string{"git_log", "git_show", "git_checkout"} {
			r := b.Call(tool, args{"path": "options", "revision": revision})
			if r.Err != nil {
				t.Errorf("%s %s: %v", tool, revision, r.Err)
			}
		}
	}
	if found := call[workspace.SearchOut](t, b, "filesystem_search", args{"path": "main", "query": "owned", "names": true}); len(found.Matches) != 0 {
		t.Errorf("%+v", found)
	}
}

// zero is an endless stream of zero bytes.
type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
