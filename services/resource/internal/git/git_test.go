package git_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/internal/git"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func repositories(t testing.TB) (first string, r *git.Repositories) {
	t.Helper()
	_, first, r = under(t)
	return first, r
}

// under makes one repository under a root, a bare copy, and one that is outside.
func under(t testing.TB) (root, first string, r *git.Repositories) {
	t.Helper()
	top := t.TempDir()
	root = filepath.Join(top, "root")
	repo := filepath.Join(root, "repo")
	write(t, filepath.Join(repo, "README.md"), []byte("first"))
	write(t, filepath.Join(repo, "sub dir", "ü.bin"), []byte{0, 255})
	write(t, filepath.Join(repo, "huge"), make([]byte, store.MaxContent+1))
	if err := os.Symlink("/etc/passwd", filepath.Join(repo, "link")); err != nil {
		t.Fatal(err)
	}
	run(t, repo, "init", "-q", "-b", "main")
	run(t, repo, "add", ".")
	run(t, repo, "commit", "-qm", "one")
	first = run(t, repo, "rev-parse", "HEAD")
	write(t, filepath.Join(repo, "README.md"), []byte("second"))
	run(t, repo, "commit", "-qam", "two")
	run(t, repo, "branch", "feature/x")
	run(t, repo, "tag", "v1.0", first)
	run(t, root, "clone", "-q", "--bare", repo, "bare.git")
	outside := filepath.Join(top, "outside")
	run(t, top, "clone", "-q", repo, outside)
	if err := os.Symlink(outside, filepath.Join(root, "linked")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "pointer", ".git"), []byte("gitdir: "+filepath.Join(outside, ".git")))
	write(t, filepath.Join(root, "empty", "x"), nil)
	r, err := git.Open([]string{root, outside})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return root, first, r
}

func TestRead(t *testing.T) {
	t.Parallel()
	first, r := repositories(t)
	for uri, text := range map[string]string{
		"git://repo/main/README.md": "second", "git://repo/HEAD/README.md": "second", "git://repo/v1.0/README.md": "first",
		"git://repo/" + first + "/README.md": "first", "git://repo/" + first[:12] + "/README.md": "first",
		"git://repo/feature%2Fx/README.md": "second", "git://repo/refs%2Fheads%2Fmain/README.md": "second",
		"git://bare/main/README.md": "second", "git://bare.git/main/README.md": "second", "git://outside/main/README.md": "second",
		// A link is read as its text, and is not followed.
		"git://repo/main/link": "/etc/passwd",
	} {
		if c, err := r.Read(t.Context(), uri); err != nil || c.Text != text || c.URI != uri {
			t.Errorf("%s: %q %v", uri, c.Text, err)
		}
	}
	if c, err := r.Read(t.Context(), "git://repo/main/sub%20dir/%C3%BC.bin"); err != nil || !bytes.Equal(c.Blob, []byte{0, 255}) {
		t.Errorf("%+v %v", c, err)
	}
	for uri, reason := range map[string]fault.Reason{
		"git://repo/main/huge": fault.TooLarge,
		"git://repo/main/none": fault.UnknownResource, "git://repo/none/README.md": fault.UnknownResource, "git://none/main/README.md": fault.UnknownResource,
		"git://repo/main/sub%20dir": fault.UnknownResource, "git://linked/main/README.md": fault.UnknownResource, "git://pointer/main/README.md": fault.UnknownResource,
		"git://empty/main/x": fault.UnknownResource, "git://root/main/README.md": fault.UnknownResource,
		"git://repo/main/": fault.InvalidParams, "git://repo/main": fault.InvalidParams, "git://repo//README.md": fault.InvalidParams, "git:///main/README.md": fault.InvalidParams,
		"git://../main/README.md": fault.InvalidParams, "git://.git/main/x": fault.InvalidParams, "git://-repo/main/x": fault.InvalidParams, "git://repo:1/main/x": fault.InvalidParams,
		"git://repo/-p/README.md": fault.InvalidParams, "git://repo/--help/README.md": fault.InvalidParams, "git://repo/main@%7B1%7D/README.md": fault.InvalidParams,
		"git://repo/main%5E/README.md": fault.InvalidParams, "git://repo/main~1/README.md": fault.InvalidParams, "git://repo/main:README.md/x": fault.InvalidParams,
		"git://repo/a..b/README.md": fault.InvalidParams, "git://repo/a%20b/README.md": fault.InvalidParams, "git://repo/main%0A/README.md": fault.InvalidParams, "git://repo/%2Fmain/x": fault.InvalidParams,
		"git://repo/main/../README.md": fault.InvalidParams, "git://repo/main/%2e%2e/x": fault.InvalidParams, "git://repo/main/a%0Ab": fault.InvalidParams, "git://repo/main/a%00": fault.InvalidParams,
		"git://repo/main//x": fault.InvalidParams, "git://repo/main/a%2Fb": fault.InvalidParams, "git://repo/main/a?x": fault.InvalidParams, "git://repo/main/a#x": fault.InvalidParams, "git://repo/main/%zz": fault.InvalidParams,
		"git://repo/main/" + strings.Repeat("x", 2000): fault.InvalidParams,
	} {
		if c, err := r.Read(t.Context(), uri); !fault.Is(err, reason) {
			t.Errorf("%s: %q %v, want %s", uri, c.Text, err, reason)
		}
	}
}

// FuzzParse: a parsed name is one line for git, without hidden meaning.
func FuzzParse(f *testing.F) {
	for _, uri := range []string{"git://repo/main/README.md", "git://repo/a%2Fb/c d", "git://repo/main/%0A", "git://repo/-x/y", "git://a/b:c/d"} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		n, err := git.Parse(uri)
		if err != nil {
			return
		}
		if strings.ContainsAny(n.Revision, ":@^~ \t\n\r\x00*?[\\") || strings.ContainsAny(n.Path, "\n\r\x00") ||
			strings.ContainsAny(n.Repository, "/\\:") || strings.HasPrefix(n.Revision, "-") || strings.HasPrefix(n.Repository, ".") {
			t.Errorf("%q is %+v", uri, n)
		}
		for _, part := range strings.Split(n.Path, "/") {
			if part == ".." || part == "." || part == "" {
				t.Errorf("%q is %+v", uri, n)
			}
		}
	})
}

// TestL6OnlyWhatBranchesAndTagsHave: a commit that no branch or tag contains any more cannot be
// read by any digits of its hash; other commits can be read by seven or more.
func TestL6OnlyWhatBranchesAndTagsHave(t *testing.T) {
	t.Parallel()
	root, first, r := under(t)
	repo := filepath.Join(root, "repo")
	write(t, filepath.Join(repo, "README.md"), []byte("password"))
	run(t, repo, "commit", "-qam", "a mistake")
	gone := run(t, repo, "rev-parse", "HEAD")
	blob := run(t, repo, "rev-parse", "HEAD:README.md")
	run(t, repo, "reset", "-q", "--hard", "HEAD~1")
	run(t, repo, "update-ref", "refs/stash", gone)
	run(t, repo, "update-ref", "refs/pull/1/head", gone)
	for _, revision := range []string{gone, gone[:7], gone[:12], gone[:4], blob, blob[:7], first[:4], first[:6], "stash", "refs%2Fstash", "refs%2Fpull%2F1%2Fhead", "pull%2F1%2Fhead", "ORIG_HEAD", "heads%2Fmain%2Fx"} {
		if out, err := r.Read(t.Context(), "git://repo/"+revision+"/README.md"); !fault.Is(err, fault.UnknownResource) {
			t.Errorf("%s: %v %v", revision, out, err)
		}
	}
	for revision, want := range map[string]string{
		"main": "second", "refs%2Fheads%2Fmain": "second", "HEAD": "second", "feature%2Fx": "second",
		"v1.0": "first", "refs%2Ftags%2Fv1.0": "first", first: "first", first[:7]: "first", first[:12]: "first",
	} {
		if out, err := r.Read(t.Context(), "git://repo/"+revision+"/README.md"); err != nil || out.Text != want {
			t.Errorf("%s: %v", revision, err)
		}
	}
	run(t, repo, "checkout", "-q", "--detach", gone)
	if _, err := r.Read(t.Context(), "git://repo/HEAD/README.md"); !fault.Is(err, fault.UnknownResource) {
		t.Errorf("a HEAD that is on no branch: %v", err)
	}
}
