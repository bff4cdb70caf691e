package ci_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/ci"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, settings ...string) []*root.Root {
	t.Helper()
	rs, err := root.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	return rs.All()
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := open(t, "main="+dir)[0]
	if _, err := ci.Commands(r); err == nil || !strings.Contains(err.Error(), "a person must write") {
		t.Errorf("without a configuration: %v", err)
	}
	write(t, dir, ci.ConfigPath, "ci:\n  test: go test ./...\n  py: {run: pytest, report: build/junit.xml}\n  a.b:c-1: \"true\"\n")
	got, err := ci.Commands(r)
	if want := []ci.Command{{Name: "a.b:c-1", Line: "true"}, {Name: "py", Line: "pytest", Report: "build/junit.xml"}, {Name: "test", Line: "go test ./..."}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for text, words := range map[string]string{
		"ci:\n  test: [a]\n": "run: and report:", "ci:\n  test: {run: x, env: y}\n": "run: and report:", "ci:\n  -x: y\n": "a command's name", "ci:\n  a/b: y\n": "a command's name",
		"ci:\n  x: ''\n": "1 to 4096", "ci:\n  x: " + strings.Repeat("y", 5000) + "\n": "1 to 4096", "ic:\n  x: y\n": "may contain only", "[]": "names and values", "": "is empty",
		"ci:\n  x: {run: y, report: ../z}\n": "a file in the root", "ci:\n  x: {run: y, report: /z}\n": "a file in the root", "ci:\n  x: y\n  x: z\n": "cannot be used", "ci: &a\n  x: *a\n": "cannot be used",
		strings.Repeat("#", 70<<10): "64 KiB",
	} {
		write(t, dir, ci.ConfigPath, text)
		if got, err := ci.Commands(r); err == nil || !strings.Contains(err.Error(), words) || len(err.Error()) > 400 {
			t.Errorf("%.40q: %v %v", text, got, err)
		}
	}
	// Only the file itself counts.
	write(t, dir, "elsewhere/workspace.yaml", "ci:\n  evil: rm -rf /\n")
	for _, links := range [][2]string{{"../elsewhere/workspace.yaml", ".busbar/workspace.yaml"}, {"elsewhere", ".busbar"}} {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, links[1])), os.Symlink(links[0], filepath.Join(dir, links[1]))); err != nil {
			t.Fatal(err)
		}
		if got, err := ci.Commands(r); err == nil {
			t.Errorf("through a link: %v", got)
		}
	}
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".git/config", ".busbar/workspace.yaml", "a/.git/config", "a/b/c/d/.busbar/x", "tree/.git", "docs/x", "deep/1/2/3/4/.git/x", "a/file", "bare/HEAD", "bare/objects/x", "bare/refs/x", "headless/objects/x", "headless/refs/x"} {
		write(t, dir, name, "")
	}
	if err := os.Symlink(".git", filepath.Join(dir, "a", ".busbar")); err != nil {
		t.Fatal(err)
	}
	roots := open(t, "main="+dir, "docs="+filepath.Join(dir, "docs"))
	i := slices.IndexFunc(roots, func(r *root.Root) bool { return r.Name == "main" })
	got, err := ci.Guarded(t.Context(), roots[i], roots)
	if want := []string{".busbar", ".git", "a/.git", "a/b/c/d/.busbar", "bare", "docs", "tree/.git"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := ci.Guarded(t.Context(), roots[1-i], roots); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
}

// If a command hides guarded files, the whole directory is guarded, or nothing runs the next time.
func TestHidden(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir, inner := filepath.Join(top, "main"), filepath.Join(top, "main", "in", "docs")
	for _, name := range []string{".git/config", "closed/.git/config", "in/docs/x"} {
		write(t, dir, name, "")
	}
	roots := open(t, "main="+dir, "docs="+inner)
	i := slices.IndexFunc(roots, func(r *root.Root) bool { return r.Name == "main" })
	guarded := func(want ...string) {
		t.Helper()
		if got, err := ci.Guarded(t.Context(), roots[i], roots); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	refused := func(words string) {
		t.Helper()
		if got, err := ci.Guarded(t.Context(), roots[i], roots); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v %v, want %q", got, err, words)
		}
	}
	guarded(".git", "closed/.git", "in/docs")
	if os.Geteuid() != 0 { // root can read everything
		closed := filepath.Join(dir, "closed")
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		guarded(".git", "closed", "in/docs")
		if err := os.Chmod(closed, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, filepath.Join(dir, "in", "full"))
	guarded(".git", "closed/.git", "in/docs", "in/full")
	if err := errors.Join(os.Rename(inner, filepath.Join(top, "gone")), os.Symlink(filepath.Join(top, "gone"), inner)); err != nil {
		t.Fatal(err)
	}
	refused("was moved")
	if err := errors.Join(os.Remove(inner), os.Rename(filepath.Join(top, "gone"), inner)); err != nil {
		t.Fatal(err)
	}
	guarded(".git", "closed/.git", "in/docs", "in/full")
	fill(t, dir)
	refused("too many entries in its top")
}

// fill puts more entries into a directory than are read.
func fill(t *testing.T, dir string) {
	t.Helper()
	first := filepath.Join(dir, "0")
	write(t, dir, "0", "")
	for n := 1; n <= 50_001; n++ {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprint(n))); err != nil {
			// A file can have only a limited number of names.
			first = filepath.Join(dir, fmt.Sprint(n))
			write(t, dir, fmt.Sprint(n), "")
		}
	}
}

// The runs of each caller are limited, both concurrent and finished ones, and belong to that
// caller.
func TestRuns(t *testing.T) {
	t.Parallel()
	rs := ci.NewRuns(4)
	ann, bob := ci.Account{Tenant: "acme", Principal: "ann"}, ci.Account{Tenant: "acme", Principal: "bob"}
	begin := func(id string, p ci.Account) *ci.Run {
		t.Helper()
		r, err := rs.Begin(id, p, "main", ci.Command{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := begin("a", ann), begin("b", ann)
	if _, err := rs.Begin("c", ann, "main", ci.Command{}); err == nil || !strings.Contains(err.Error(), "your limit") {
		t.Errorf("a third at once: %v", err)
	}
	begin("d", bob)
	e := begin("e", bob)
	if _, err := rs.Begin("f", ci.Account{Principal: "eve"}, "main", ci.Command{}); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("a fifth at once: %v", err)
	}
	// The output is cut, kept and reported.
	if _, err := a.Write([]byte(strings.Repeat("0123456789\n", 10_000) + "\x1b[31mlast\x1b[0m \x00line\n")); err != nil {
		t.Fatal(err)
	}
	tail, written := a.Tail()
	if len(tail) > 48<<10 || !strings.HasSuffix(tail, "0123456789\nlast line\n") || written != 110_020 {
		t.Errorf("%d bytes of %d: %q", len(tail), written, tail[max(0, len(tail)-30):])
	}
	if text, missed, lines := a.News(); len(text)+missed < 100_000 || len(text) > 8<<10 || lines != 10_001 {
		t.Errorf("%d told, %d left out, %d lines", len(text), missed, lines)
	}
	if text, missed, _ := a.News(); text != "" || missed != 0 {
		t.Errorf("told twice: %q", text)
	}
	rs.End(a, "how a ended")
	rs.End(e, nil)
	for id, p := range map[string]ci.Account{"a": bob, "b": bob, "e": bob, "none": ann} {
		if r, _, err := rs.Find(id, p); err == nil {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if r, result, err := rs.Find("b", ann); r != b || result != nil || err != nil {
		t.Errorf("%v %v", result, err)
	}
	for i := range 15 {
		rs.End(begin(fmt.Sprint("more", i), ann), i)
	}
	if _, _, err := rs.Find("a", ann); err == nil {
		t.Error("the oldest run is kept")
	}
	if _, result, err := rs.Find("more5", ann); result != 5 || err != nil {
		t.Errorf("%v %v", result, err)
	}
	for i := range 200 {
		rs.End(begin(fmt.Sprint("of", i), ci.Account{Principal: fmt.Sprint(i)}), i)
	}
	if _, _, err := rs.Find("of50", ci.Account{Principal: "50"}); err == nil {
		t.Error("runs without end are kept")
	}
}

// FuzzConfiguration: whatever the file has, commands have names, lines and reports within their bounds.
func FuzzConfiguration(f *testing.F) {
	dir := f.TempDir()
	r := open(f, "main="+dir)[0]
	for _, s := range []string{"ci:\n  test: go test ./...\n", "ci:\n  x: {run: y, report: a/b.xml}\n", "ci: {}", "ci:\n  ? a\n  : b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		write(t, dir, ci.ConfigPath, text)
		commands, err := ci.Commands(r)
		if err != nil {
			return
		}
		for _, c := range commands {
			if c.Name == "" || strings.TrimSpace(c.Line) == "" || len(c.Line) > 4096 || strings.ContainsRune(c.Line, 0) || c.Report != "" && !filepath.IsLocal(c.Report) {
				t.Errorf("%+v", c)
			}
		}
	})
}
