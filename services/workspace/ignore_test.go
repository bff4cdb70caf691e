package workspace_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// The same files are ignored as by the git program, also with sets such as [!a], with ** inside an
// element, and with patterns that need backtracking.
func TestIgnoredAsGitIgnores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	for _, at := range []string{"a", "b", "foo", "a/b", "a/foo", "b/a/x", "b/a/foo", "a/b/a"} {
		for _, name := range []string{"f.o", "g.txt", "#h", "!n", "x y", "sp ", "aa"} {
			put(t, dir, map[string]string{at + "/" + name: "1"})
		}
	}
	b := start(t, "main="+dir)
	parts := []string{"a", "b", "foo", "*", "**", "f.o", "*.o", "**.o", "g.*", "?", "[ab]", "[!a]*", "[^a]", `\#h`, `\!n`, "#h", "x y", `sp\ `, "sp ", "a*", "f[.]o", `[\!a]*`, ""}
	random := rand.New(rand.NewPCG(5, 9))
	lines := func() string {
		var all strings.Builder
		for range 1 + random.IntN(4) {
			all.WriteString([]string{"", "", "", "!"}[random.IntN(4)] + []string{"", "", "", "/"}[random.IntN(4)])
			var line []string
			for range 1 + random.IntN(4) {
				line = append(line, parts[random.IntN(len(parts))])
			}
			all.WriteString(strings.Join(line, "/") + []string{"", "", "", "/"}[random.IntN(4)] + "\n")
		}
		return all.String()
	}
	for range 150 {
		top, inner := lines(), lines()
		put(t, dir, map[string]string{".gitignore": top, "a/.gitignore": inner})
		got, want := ours(t, call[repo.Status](t, b, "git_status", args{"limit": 1000})), porcelain(t, dir)
		if !slices.Equal(got, want) {
			t.Errorf("%q and in a: %q\n%q\ngit:\n%q", top, inner, got, want)
		}
	}
	put(t, dir, map[string]string{".gitignore": "secrets/[!p]*\n", "secrets/key": "k", "secrets/public": "p"})
	_ = os.Remove(filepath.Join(dir, "a/.gitignore"))
	call[repo.Status](t, b, "git_add", args{"paths": []string{"secrets"}})
	if got := git(t, dir, "ls-files"); got != "secrets/public" {
		t.Error(got)
	}
}
