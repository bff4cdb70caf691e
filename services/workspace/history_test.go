package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace"
)

// A history with merges is read as the git program reads it: the same commits of a path, and the
// same commit for each line.
func TestHistoryAsGitReadsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	random := rand.New(rand.NewPCG(1, 2))
	files := map[string][]string{"a/deep/one.txt": nil, "a/two.txt": nil, "b.txt": nil}
	names := []string{"a/deep/one.txt", "a/two.txt", "b.txt"}
	clock, unique := 1_700_000_000, 0
	commit := func(args ...string) {
		clock += 60
		t.Helper()
		git(t, dir, append([]string{"-c", fmt.Sprintf("user.name=at %d", clock)}, args...)...)
	}
	edit := func(name string) {
		lines := files[name]
		for range 1 + random.IntN(4) {
			unique++
			at := random.IntN(len(lines) + 1)
			lines = slices.Insert(lines, at, fmt.Sprintf("line %d\n", unique))
			if len(lines) > 6 {
				at := random.IntN(len(lines))
				lines = slices.Delete(lines, at, at+1)
			}
		}
		files[name] = lines
		put(t, dir, map[string]string{name: strings.Join(lines, "")})
		git(t, dir, "add", ".")
	}
	for i := range 40 {
		edit(names[random.IntN(len(names))])
		commit("commit", "-qm", fmt.Sprint(i))
		if i%8 == 4 {
			// A branch changes one file, the first line of history another; and one merge keeps
			// only the other side.
			git(t, dir, "checkout", "-qb", fmt.Sprint("side", i))
			edit("b.txt")
			commit("commit", "-qm", "side")
			git(t, dir, "checkout", "-q", "main")
			side := files["b.txt"]
			edit("a/two.txt")
			commit("commit", "-qm", "main")
			strategy := []string{"merge", "-q", "--no-edit", "--no-ff"}
			if i%16 == 4 {
				strategy = append(strategy, "-s", "ours")
				files["b.txt"] = slices.Collect(strings.Lines(get(t, dir, "b.txt")))
			} else {
				files["b.txt"] = side
			}
			commit(append(strategy, fmt.Sprint("side", i))...)
		}
	}
	b := start(t, "main="+dir)
	for _, path := range append(names, "a", "a/deep", ".") {
		var got []string
		for skip, again := 0, true; again; {
			out := call[workspace.LogOut](t, b, "git_log", args{"path": path, "limit": 7, "skip": skip})
			for _, c := range out.Commits {
				got = append(got, c.Hash)
			}
			skip, again = out.NextSkip, out.NextSkip > 0
		}
		want := strings.Fields(git(t, dir, "log", "--format=%H", "--", path))
		if path == "." {
			want = strings.Fields(git(t, dir, "log", "--format=%H"))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d commits, git has %d\n%v\n%v", path, len(got), len(want), got, want)
		}
	}
	for _, path := range names {
		var got, want []string
		for _, l := range call[workspace.BlameOut](t, b, "git_blame", args{"path": path}).Lines {
			got = append(got, l.Commit+" "+l.Text)
		}
		for l := range strings.Lines(git(t, dir, "blame", "-l", "-s", "--root", path)) {
			hash, rest, _ := strings.Cut(l, " ")
			_, text, _ := strings.Cut(rest, ") ")
			want = append(want, hash+" "+strings.TrimSuffix(text, "\n"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\ngit:\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
