package workspace_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pathIndex is an index of one file under any path.
func pathIndex(name string) []byte {
	var b bytes.Buffer
	b.WriteString("DIRC")
	_ = binary.Write(&b, binary.BigEndian, []uint32{2, 1, 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 3})
	b.Write(make([]byte, 20))
	_ = binary.Write(&b, binary.BigEndian, uint16(len(name)))
	b.WriteString(name)
	b.Write(make([]byte, 8-(62+len(name))%8))
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// A path that does not lead below the worktree is refused, in an index and in a tree. An absolute
// path could otherwise be climbed forever, even after the call.
func TestPathsThatDoNotLeadDown(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	head := git(t, dir, "rev-parse", "HEAD")
	blob, err := hex.DecodeString(git(t, dir, "rev-parse", "HEAD:a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name, tool string, a args) {
		t.Helper()
		done := make(chan string, 1)
		go func() { done <- b.Call(tool, a).Text }()
		select {
		case words := <-done:
			if !strings.Contains(words, "damaged") && !strings.Contains(words, "does not write") {
				t.Errorf("%q: %s: %s", name, tool, words)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q: %s does not end", name, tool)
		}
	}
	for _, name := range []string{"/etc/x", "../x", "a/../b", "", ".", "a//b", "a/"} {
		// As a tree, and the commit of it.
		c := exec.Command("git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
		c.Dir, c.Stdin = dir, strings.NewReader("100644 "+name+"\x00"+string(blob))
		tree, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		commit := git(t, dir, "commit-tree", "-m", "odd", strings.TrimSpace(string(tree)))
		refused(name, "git_checkout", args{"revision": commit})
		git(t, dir, "update-ref", "refs/heads/main", commit)
		refused(name, "git_status", nil)
		git(t, dir, "update-ref", "refs/heads/main", head)
		before, err := os.ReadFile(filepath.Join(dir, ".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".git/index"), pathIndex(name), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(name, "git_status", nil)
		refused(name, "git_add", args{"paths": []string{"a.txt"}})
		if err := os.WriteFile(filepath.Join(dir, ".git/index"), before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An index with a path in .git does not make git_add stage files of .git.
func TestIndexNamesGitItself(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".git/config", ".GIT/config", "src/.git/config"} {
		dir, b := project(t)
		put(t, dir, map[string]string{name: "[core]\n\ttoken = secret\n"})
		if err := os.WriteFile(filepath.Join(dir, ".git/index"), pathIndex(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if words := fails(t, b, "git_add", args{"paths": []string{"."}}); !strings.Contains(words, "a name that means .git") {
			t.Errorf("%s: %s", name, words)
		}
	}
}
