package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace"
)

// A client's root that is a link opens nothing: through it, guarded files would have another name.
func TestClientRootThroughLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{".git/config": "[core]", "sub/.git/config": "[core]", "a.txt": "x"})
	for name, to := range map[string]string{"link": ".git", "in": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, uri := range []string{"workspace://main/link", "file://" + dir + "/link", "workspace://main/in/.git", "workspace://main/.git"} {
		b := start(t, "main="+dir).Answer("roots", []service.Root{{URI: uri}})
		for _, path := range []string{"link/config", ".git/config", "in/.git/config", dir + "/link/config"} {
			fails(t, b, "filesystem_write", args{"path": path, "text": "owned"})
		}
	}
	if get(t, dir, ".git/config")+get(t, dir, "sub/.git/config") != "[core][core]" {
		t.Error("what git runs was changed")
	}
}

// Names that are not UTF-8 are listed once each, and completion ends.
func TestNamesNotUTF8(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 1200 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("\x81%04d", i)), nil, 0o600); err != nil {
			t.Skipf("the file system takes no such names: %v", err)
		}
	}
	put(t, dir, map[string]string{"z/a": "", "z-1": "", "\xf1last": ""})
	b := start(t, "main="+dir)
	seen, cursor := 0, ""
	for range 10 {
		out := call[workspace.ListOut](t, b, "filesystem_list", args{"limit": 500, "cursor": cursor})
		seen += len(out.Entries)
		if cursor = out.NextCursor; cursor == "" {
			break
		}
	}
	if cursor != "" || seen != 1203 {
		t.Errorf("%d entries, then %q", seen, cursor)
	}
	fails(t, b, "filesystem_list", args{"cursor": "%zz"})
	names, err := b.CompleteResource("workspace://{root}/{+path}", "path", "z", map[string]string{"root": "main"})
	if err != nil || !slices.Equal(names, []string{"z/", "z-1"}) && !slices.Equal(names, []string{"z-1", "z/"}) {
		t.Errorf("%v %v", names, err)
	}
	if names, err = b.CompleteResource("workspace://{root}/{+path}", "path", "none", map[string]string{"root": "main"}); err != nil || len(names) != 0 {
		t.Errorf("%v %v", names, err)
	}
}

// A regular expression is searched in each line; one that would take too long is refused, and
// skipped files are reported.
func TestSearchExpressions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"a.go": "package a\n\nfunc main() {}\nvar x = 1\r\n", "far.txt": strings.Repeat("é ", 50_000) + "needle end\n",
		"large.log": "needle\n" + strings.Repeat("line\n", 2<<20),
	})
	b := start(t, "main="+dir)
	for query, line := range map[string]int{"^func main": 3, "= 1$": 4, `^$`: 2, `\Avar`: 4, "^package a$": 1} {
		out := call[workspace.SearchOut](t, b, "filesystem_search", args{"query": query, "regexp": true, "path": "a.go"})
		if len(out.Matches) != 1 || out.Matches[0].Line != line {
			t.Errorf("%s: %+v", query, out)
		}
	}
	for _, a := range []args{{"query": "needle", "path": "far.txt"}, {"query": "n.*le e", "regexp": true, "path": "far.txt"}} {
		out := call[workspace.SearchOut](t, b, "filesystem_search", a)
		if len(out.Matches) != 1 || !strings.Contains(out.Matches[0].Text, "needle end") {
			t.Errorf("%+v", out)
		}
	}
	for _, path := range []string{"main", "large.log"} {
		if out := call[workspace.SearchOut](t, b, "filesystem_search", args{"query": "needle", "path": path, "limit": 5}); !strings.Contains(out.Note, "8 MiB") {
			t.Errorf("a file that was passed over is not told: %+v", out)
		}
	}
	for _, query := range []string{strings.Repeat(".{0,1000}", 100) + "b", strings.Repeat("((x{1,10}){1,10}){1,10}", 9)} {
		if words := fails(t, b, "filesystem_search", args{"query": query, "regexp": true, "path": "a.go"}); !strings.Contains(words, "too large") {
			t.Errorf("%s: %s", query, words)
		}
	}
}

// A directory that contains a repository is not removed, nor is one that is too deep to be checked.
func TestDeleteKeepsRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a/b/.git/config": "[core]", "c/.busbar/x": "", "deep/" + strings.Repeat("d/", 70) + "x": ""})
	b := start(t, "main="+dir)
	for _, path := range []string{"a", "c", "deep"} {
		if words := fails(t, b, "filesystem_delete", args{"path": path, "recursive": true}); !strings.Contains(words, "nothing was removed") {
			t.Error(words)
		}
	}
}
