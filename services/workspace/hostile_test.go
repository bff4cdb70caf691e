package workspace_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace"
)

// secret must never be in an answer.
const secret = "SECRET-3141"

// hostileTree is a directory whose subdirectory "root" is open, with every kind of way out.
func hostileTree(t *testing.T) (top string) {
	t.Helper()
	top = t.TempDir()
	put(t, top, map[string]string{
		"secret.txt": secret, "outside/secret.txt": secret, "root2/secret.txt": secret,
		"root/a.txt": "plain", "root/sub/b.txt": "deep", "root/.git/config": "[core]", "root/.git/hooks/x": "", "root/.busbar/workspace.yaml": "ci:\n",
		"root/Case.txt": "upper",
	})
	for name, to := range map[string]string{
		"out": "../secret.txt", "outdir": "../outside", "up": "..", "abs": filepath.Join(top, "secret.txt"), "absdir": top, "etc": "/etc", "proc": "/proc/self", "dev": "/dev",
		"loop": "loop", "chain": "chain2", "chain2": "out", "dotdot": "sub/../../secret.txt", "twin": "../root2", "null": "/dev/null", "in": "a.txt", "indir": "sub",
		"gitlink": ".git", "back": "../root/a.txt", "selfabs": filepath.Join(top, "root"), "empty-target": "none", "sub/far": "../../outside/secret.txt", "fd": "/proc/self/fd/0", "cwd": "/proc/self/cwd",
	} {
		if err := os.Symlink(to, filepath.Join(top, "root", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(top, "root", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "s") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Rename(filepath.Join(short, "s"), filepath.Join(top, "root", "socket")); err != nil {
		t.Logf("no socket in the root: %v", err) // another file system
	}
	if err := syscall.Mknod(filepath.Join(top, "root", "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		t.Logf("no device in the root: %v", err) // that needs root
	}
	return top
}

// hostilePaths are paths that lead out, to special files, or to files that no tool may change. TOP
// is the parent directory of the root.
var hostilePaths = []string{
	"..", "../", "../secret.txt", "../../etc/passwd", "./../secret.txt", "sub/../../secret.txt", "sub/..", "a.txt/..", "a.txt/../../secret.txt", "main/..", "main/../secret.txt", "main/../../etc/passwd",
	"sub/./../../secret.txt", "sub//../../secret.txt", "../root/../secret.txt", "../root2/secret.txt", ".../../secret.txt", "sub/...//../../secret.txt", strings.Repeat("../", 40) + "etc/passwd", "..%2fsecret.txt/..",
	"/", "//", "/etc/passwd", "//etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/zero", "/dev/stdin", "/dev/tcp/127.0.0.1/22", "TOP/secret.txt", "TOP/root2/secret.txt", "TOP/root/../secret.txt", "TOP", "TOP/roo", "/TOP/secret.txt/",
	"..\\secret.txt", "sub\\..\\..\\secret.txt", "C:\\Windows\\system32", "\\\\server\\share", "a.txt\x00", "../secret.txt\x00.txt", "sub\x00/../../secret.txt", "a\nb", "\x1b[2J", "\x7f", "\xff\xfe", "sub/\xc0\xae\xc0\xae/secret.txt", strings.Repeat("a", 256), strings.Repeat("a/", 129) + "b", strings.Repeat("a/", 2100),
	"out", "outdir/secret.txt", "outdir", "up", "up/secret.txt", "up/root/../secret.txt", "abs", "absdir/secret.txt", "absdir", "etc/passwd", "etc", "proc/environ", "proc/root/etc/passwd", "dev/zero", "dev", "loop", "loop/x", "chain", "chain2", "dotdot",
	"twin/secret.txt", "null", "selfabs/a.txt", "back", "empty-target", "sub/far", "indir/far", "fd", "cwd/go.mod", "pipe", "pipe/x", "socket", "zero", "a.txt/x", "in/x",
	".git/config", ".git/hooks/pre-commit", ".GIT/config", ".git./config", ".git /config", "gitlink/config", "gitlink/hooks/pre-commit", "sub/.git/config", "git~1/config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/config", ".busbar/workspace.yaml", ".Busbar/workspace.yaml", ".git", ".busbar", "gitlink",
	"", ".", "main", "main/",
}

// Whatever the path, no tool reads or changes anything outside of the root, or changes files that
// decide what git runs.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	if len(hostilePaths) < 60 {
		t.Fatalf("there are only %d paths", len(hostilePaths))
	}
	top := hostileTree(t)
	b := start(t, "main="+filepath.Join(top, "root"))
	before := snapshot(t, top)
	for _, path := range hostilePaths {
		path = strings.ReplaceAll(path, "TOP", top)
		for tool, a := range map[string]args{
			"filesystem_read": {"path": path}, "filesystem_list": {"path": path}, "filesystem_tree": {"path": path, "depth": 9, "ignored": true}, "filesystem_stat": {"path": path},
			"filesystem_search":  {"path": path, "query": "SECRET", "ignored": true},
			"filesystem_preview": {"path": path, "edits": []args{{"oldText": "SECRET", "newText": "x"}}},
		} {
			if strings.Contains(path, "\xff") || strings.Contains(path, "\xc0") {
				continue // not valid JSON; TestFind of package root covers it
			}
			r := b.Call(tool, a)
			if r.Err != nil {
				t.Errorf("%s %q: %v", tool, path, r.Err)
			}
			if all := r.Text + string(r.Structured); strings.Contains(all, secret) || strings.Contains(strings.ReplaceAll(all, path, ""), "root:x:0") || r.IsError && strings.Contains(strings.ReplaceAll(all, path, ""), top) {
				t.Errorf("%s %q tells %s", tool, path, all)
			}
		}
		for tool, a := range map[string]args{
			"filesystem_write": {"path": path, "text": "owned"}, "filesystem_edit": {"path": path, "edits": []args{{"oldText": "e", "newText": "x", "all": true}}},
			"filesystem_move": {"from": "a.txt", "to": path}, "filesystem_delete": {"path": path, "recursive": true},
		} {
			if strings.Contains(path, "\xff") || strings.Contains(path, "\xc0") || tool == "filesystem_delete" && isLink(top, path) {
				continue // a link itself may be removed
			}
			if r := b.Call(tool, a); !r.IsError {
				t.Errorf("%s %q: %s %v", tool, path, r.Text, r.Err)
			}
		}
	}
	for _, pair := range [][2]string{{".git", "x"}, {".git/config", "x"}, {"gitlink/config", "x"}, {"outdir/secret.txt", "x"}, {"out/x", "y"}, {"sub", "sub/inner"}} {
		fails(t, b, "filesystem_move", args{"from": pair[0], "to": pair[1]})
	}
	if after := snapshot(t, top); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// isLink reports whether a path is a link or a special file of the root; filesystem_delete removes
// the entry itself.
func isLink(top, path string) bool {
	info, err := os.Lstat(filepath.Join(top, "root", path))
	return err == nil && (!strings.Contains(path, "/") || path == "sub/far") && !info.IsDir()
}

// snapshot is the whole content of a directory as text.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all.WriteString(strings.TrimPrefix(path, dir) + " " + d.Type().String())
		switch {
		case d.Type().IsRegular():
			all.WriteString(" " + get(t, path))
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			all.WriteString(" -> " + to)
		}
		all.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// A link is removed, and its target stays.
func TestDeleteLinks(t *testing.T) {
	t.Parallel()
	top := hostileTree(t)
	b := start(t, "main="+filepath.Join(top, "root"))
	for _, link := range []string{"out", "outdir", "up", "absdir", "loop", "pipe", "gitlink"} {
		if out := call[workspace.DeleteOut](t, b, "filesystem_delete", args{"path": link, "recursive": true}); out.Removed != 1 {
			t.Errorf("%s: %+v", link, out)
		}
	}
	// A directory is removed together with the links in it.
	if out := call[workspace.DeleteOut](t, b, "filesystem_delete", args{"path": "sub", "recursive": true}); out.Removed != 3 {
		t.Errorf("%+v", out)
	}
	if get(t, top, "secret.txt") != secret || get(t, top, "outside", "secret.txt") != secret || get(t, top, "root", ".git", "config") != "[core]" {
		t.Error("what the links led to is gone")
	}
}

// Links that stay in the root are followed for reading.
func TestLinksInside(t *testing.T) {
	t.Parallel()
	top := hostileTree(t)
	b := start(t, "main="+filepath.Join(top, "root"))
	for path, want := range map[string]string{"in": "plain", "indir/b.txt": "deep", "gitlink/config": "[core]"} {
		if r := b.Call("filesystem_read", args{"path": path}); r.Text != want {
			t.Errorf("%s: %s %v", path, r.Text, r.Err)
		}
	}
	if out := call[workspace.StatOut](t, b, "filesystem_stat", args{"path": "out"}); out.Type != "symlink" || out.Target != "../secret.txt" {
		t.Errorf("%+v", out)
	}
	if words := fails(t, b, "filesystem_write", args{"path": "in", "text": "x"}); !strings.Contains(words, "symbolic link") {
		t.Error(words)
	}
}
