package workspace_test

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// indexOf is an index whose entries have these path suffixes, in the encoding of its version.
func indexOf(version uint32, names ...string) string {
	data := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	data = binary.BigEndian.AppendUint32(data, uint32(len(names)))
	for _, name := range names {
		fixed := make([]byte, 62)
		binary.BigEndian.PutUint32(fixed[24:], 0o100644)
		binary.BigEndian.PutUint16(fixed[60:], uint16(min(len(strings.TrimPrefix(name, "\x00")), 0xfff)))
		entry := string(fixed) + name + "\x00"
		if version != 4 {
			entry += strings.Repeat("\x00", (8-len(entry)%8)%8)
		}
		data = append(data, entry...)
	}
	sum := sha1.Sum(data)
	return string(data) + string(sum[:])
}

// A few bytes of a repository that stand for endless files or endless names are refused before they
// fill the memory.
func TestSmallAndEndless(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	make := func(name string) string { return repository(t, top, name) }
	dir := make("trees")
	// The directory contains itself a hundred times, on each of twelve levels.
	mode, tree, long := "100644", hashObject(t, dir, "x"), strings.Repeat("x", 200)
	for range 12 {
		var all strings.Builder
		for i := range 100 {
			all.WriteString(entry(mode, fmt.Sprintf("d%02d%s", i, long), tree))
		}
		mode, tree = "40000", raw(t, dir, all.String())
	}
	put(t, dir, map[string]string{".git/refs/heads/evil": commitOf(t, dir, entry("40000", "d", tree)) + "\n"})
	more := strings.Split(strings.Repeat("\x00b ", 100_000), " ")
	put(t, make("names"), map[string]string{".git/index": indexOf(4, append([]string{"\x00" + strings.Repeat("a", 4000)}, more...)...)})
	put(t, make("name"), map[string]string{".git/index": indexOf(4, append([]string{"\x00" + strings.Repeat("a", 1<<20)}, more[:3000]...)...)})
	put(t, make("deep"), map[string]string{".git/index": indexOf(2, strings.Repeat("a/", 1000)+"a")})

	b := start(t, "main="+top)
	for _, c := range []struct {
		tool string
		a    args
	}{
		{"git_show", args{"path": "trees", "revision": "evil"}}, {"git_checkout", args{"path": "trees", "revision": "evil"}},
		{"git_status", args{"path": "names"}}, {"git_status", args{"path": "name"}}, {"git_diff", args{"path": "deep", "staged": true}},
	} {
		if words := fails(t, b, c.tool, c.a); !strings.Contains(words, "directories") && !strings.Contains(words, "too long or too deep") {
			t.Errorf("%s %v: %s", c.tool, c.a, words)
		}
	}
}

// An index is read in each version that git writes.
func TestIndexVersions(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	for i := range 50 {
		put(t, dir, map[string]string{fmt.Sprintf("deep/er/%s%d.txt", strings.Repeat("n", i), i): "x"})
	}
	git(t, dir, "add", ".")
	want := text(call[repo.Status](t, b, "git_status", args{}))
	for _, version := range []string{"2", "4", "3"} {
		if version == "3" { // which has flags of intent
			put(t, dir, map[string]string{"later.txt": "x"})
			git(t, dir, "add", "--intent-to-add", "later.txt")
			version = "2" // git makes it 3 where it has to
		}
		git(t, dir, "update-index", "--index-version", version)
		got := call[repo.Status](t, b, "git_status", args{})
		if _, err := os.Stat(filepath.Join(dir, "later.txt")); err != nil && text(got) != want {
			t.Errorf("version %s: %s, want %s", version, text(got), want)
		}
		if len(got.Changes) < 50 {
			t.Errorf("version %s: %d changes", version, len(got.Changes))
		}
	}
}
