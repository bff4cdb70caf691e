package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/workspace"
	"github.com/busbar-mcp/busbar/services/workspace/internal/repo"
)

// porcelain is the status of the git program in our words.
func porcelain(t *testing.T, dir string) (all []string) {
	t.Helper()
	words := map[byte]string{' ': "", 'M': "modified", 'A': "added", 'D': "deleted", 'T': "modified"}
	for entry := range strings.SplitSeq(git(t, dir, "-c", "status.renames=false", "status", "--porcelain", "-z", "-uall", "--no-renames"), "\x00") {
		switch {
		case entry == "":
		case strings.HasPrefix(entry, "??"):
			all = append(all, entry[3:]+"  untracked")
		default:
			// Trimming the output removes the blank at the beginning of the first entry.
			if entry[1] == ' ' && entry[2] != ' ' {
				entry = " " + entry
			}
			all = append(all, entry[3:]+" "+words[entry[0]]+" "+words[entry[1]])
		}
	}
	slices.Sort(all)
	// A file that is staged as deleted but still exists has two entries, and one change.
	for i := range max(0, len(all)-1) {
		name, _ := strings.CutSuffix(all[i], "  untracked")
		if all[i+1] == name+" deleted " {
			all[i], all[i+1] = name+" deleted untracked", ""
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

func ours(t *testing.T, s repo.Status) (all []string) {
	t.Helper()
	for _, c := range s.Changes {
		all = append(all, strings.TrimPrefix(c.Path, "main/")+" "+c.Staged+" "+c.Worktree)
	}
	slices.Sort(all)
	return all
}

// The status of a worktree agrees with the git program, whatever was done to files, the index and
// ignore files, also after these tools have staged and checked out files.
func TestStatusAsGitReadsIt(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	git(t, dir, "commit", "-qm", "nothing", "--allow-empty")
	random := rand.New(rand.NewPCG(3, 4))
	names := []string{"a.txt", "src/app.go", "src/deep/er/x", "build/out.o", "build/kept", "link", "tool", "x.log", "src/.gitignore", "ignored/tracked", "ignored/not"}
	put(t, dir, map[string]string{".gitignore": "*.log\n/ignored/\nbuild/*\n!build/kept\n", "ignored/tracked": "t", "build/kept": "k"})
	git(t, dir, "add", "-f", ".")
	git(t, dir, "commit", "-qm", "all kinds")
	do := func(name string) {
		at := filepath.Join(dir, name)
		switch random.IntN(9) {
		case 0:
			_ = os.RemoveAll(at)
		case 1:
			_ = os.RemoveAll(at)
			_ = os.Symlink(fmt.Sprint("to", random.IntN(3)), at)
		case 2:
			_ = os.Chmod(at, []os.FileMode{0o644, 0o755}[random.IntN(2)])
		case 3: // the same size within the same moment
			_ = os.WriteFile(at, fmt.Append(nil, random.IntN(10)), 0o644)
			git(t, dir, "add", "-A")
			_ = os.WriteFile(at, fmt.Append(nil, random.IntN(10)), 0o644)
		case 4: // the same size and time
			info, err := os.Stat(at)
			if err == nil && info.Mode().IsRegular() {
				_ = os.WriteFile(at, []byte(strings.Repeat("z", int(info.Size()))), 0o644)
				_ = os.Chtimes(at, info.ModTime(), info.ModTime())
			}
		case 5:
			git(t, dir, "rm", "-rq", "--cached", "--ignore-unmatch", name)
		case 6:
			git(t, dir, "commit", "-qm", "so far", "--allow-empty")
		default:
			if _, err := os.Lstat(filepath.Dir(at)); err != nil {
				_ = os.MkdirAll(filepath.Dir(at), 0o755)
			}
			_ = os.Remove(at)
			_ = os.WriteFile(at, fmt.Append(nil, "text ", random.IntN(5)), 0o644)
			if name == "src/.gitignore" {
				_ = os.WriteFile(at, []byte("deep\n!*.go\n"), 0o644)
			}
		}
	}
	check := func(after string) {
		t.Helper()
		s := call[repo.Status](t, b, "git_status", nil)
		if got, want := ours(t, s), porcelain(t, dir); !slices.Equal(got, want) {
			t.Errorf("after %s:\n%s\ngit:\n%s", after, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for i := range 60 {
		name := names[random.IntN(len(names))]
		do(name)
		check(fmt.Sprint(i, " ", name))
	}
	s := call[repo.Status](t, b, "git_add", args{"paths": []string{"main/"}})
	for _, c := range s.Changes {
		if c.Worktree != "" {
			t.Errorf("not staged: %+v", c)
		}
	}
	check("git_add")
	call[repo.Commit](t, b, "git_commit", args{"message": "all", "allowEmpty": true})
	check("git_commit")
	call[repo.Status](t, b, "git_checkout", args{"revision": "side"})
	check("git_checkout")
	if git(t, dir, "fsck", "--strict", "--no-dangling") != "" || git(t, dir, "diff-files") != "" {
		t.Errorf("%s %s", git(t, dir, "fsck", "--strict", "--no-dangling"), git(t, dir, "diff-files"))
	}
}

// The cost of a status grows with the number of directories, not with their depth.
func TestStatusOfDeepDirectories(t *testing.T) {
	flat, deep := t.TempDir(), t.TempDir()
	const levels, fan = 110, 4
	for k := range fan {
		at := fmt.Sprint(k)
		for i := range levels {
			put(t, flat, map[string]string{fmt.Sprintf("%d-%d/f", k, i): "x"})
			at += "/d"
		}
		put(t, deep, map[string]string{at + "/f": "x"})
	}
	least := func(dir string) (least time.Duration) {
		git(t, dir, "init", "-q", "-b", "main")
		b := start(t, "main="+dir)
		least = time.Hour
		for range 5 {
			begin := time.Now()
			call[repo.Status](t, b, "git_status", nil)
			least = min(least, time.Since(begin))
		}
		return least
	}
	if d, f := least(deep), least(flat); d > 10*f {
		t.Errorf("%d directories cost %v in depth, and %v beside each other", levels*fan, d, f)
	}
}

// A directory that is too deep, an open merge, and special files are reported in messages.
func TestStatusOfOddWorktrees(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, dir, map[string]string{"d/" + strings.Repeat("d/", 129) + "f": "x"})
	if words := fails(t, b, "git_status", nil); !strings.Contains(words, "128 directories deep") {
		t.Error(words)
	}
	if found := call[workspace.SearchOut](t, b, "filesystem_search", args{"query": "x"}); !strings.Contains(found.Note, "64 levels") {
		t.Errorf("%+v", found)
	}
	if s := call[repo.Status](t, b, "git_status", args{"path": "src"}); len(s.Changes) != 0 {
		t.Errorf("%+v", s)
	}
	if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "checkout", "-q", "side")
	put(t, dir, map[string]string{"a.txt": "one\nother\n"})
	git(t, dir, "commit", "-qam", "other")
	_ = os.WriteFile(filepath.Join(dir, "out"), nil, 0o600)
	git(t, dir, "update-index", "--add", "out")
	_ = os.Remove(filepath.Join(dir, "out"))
	conflict := git(t, dir, "rev-parse", "main:a.txt")
	c := exec.Command("git", "update-index", "--index-info")
	c.Dir, c.Stdin = dir, strings.NewReader(fmt.Sprintf("0 %040d\ta.txt\n100644 %s 1\ta.txt\n100644 %s 2\ta.txt\n", 0, conflict, conflict))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	want := []repo.Change{{Path: "main/a.txt", Worktree: "unmerged"}, {Path: "main/out", Staged: "added", Worktree: "deleted"}}
	if s := call[repo.Status](t, b, "git_status", nil); !slices.Equal(s.Changes, want) {
		t.Errorf("%+v", s.Changes)
	}
}
