package workspace_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("a line of text\n", 100)
	put(t, dir, map[string]string{"a.txt": "one\ntwo\nthree", "long.txt": long, "wide.txt": strings.Repeat("ż", 1000), "empty": "", "bin": "\x00\xff\x01", "huge": strings.Repeat("x", 9<<20)})
	b := start(t, "main="+dir)
	r := b.Call("filesystem_read", args{"path": "a.txt"})
	var out workspace.ReadOut
	if err := r.Into(&out); err != nil || r.Text != "one\ntwo\nthree" || *out.Text != r.Text || out.Path != "main/a.txt" || out.Size != 13 || !strings.HasPrefix(out.Digest, "sha256:") {
		t.Errorf("%s %+v %v", r.Text, out, err)
	}
	if out := call[workspace.ReadOut](t, b, "filesystem_read", args{"path": "a.txt", "startLine": 2}); *out.Text != "two\nthree" || out.Line != 2 || out.NextLine != 0 {
		t.Errorf("%s", text(out))
	}
	if out := call[workspace.ReadOut](t, b, "filesystem_read", args{"path": "empty"}); *out.Text != "" {
		t.Errorf("%s", text(out))
	}
	// The parts of a long file together are the file.
	var parts strings.Builder
	for line := 1; line > 0; {
		out := call[workspace.ReadOut](t, b, "filesystem_read", args{"path": "long.txt", "startLine": line, "maxBytes": 100})
		parts.WriteString(*out.Text)
		line = out.NextLine
	}
	if parts.String() != long {
		t.Errorf("%d bytes in parts, want %d", parts.Len(), len(long))
	}
	if out := call[workspace.ReadOut](t, b, "filesystem_read", args{"path": "wide.txt", "maxBytes": 101}); *out.Text != strings.Repeat("ż", 50) || out.Note == "" {
		t.Errorf("%s", text(out))
	}
	if out := call[workspace.ReadOut](t, b, "filesystem_read", args{"path": "bin"}); out.Text != nil || *out.Blob != "AP8B" {
		t.Errorf("%s", text(out))
	}
	for words, a := range map[string]args{
		"main/none does not exist": {"path": "none"}, "main is a directory": {"path": "main"}, "files of up to 8 MiB": {"path": "huge"},
		"has only 3 lines": {"path": "a.txt", "startLine": 4}, "startLine is": {"path": "a.txt", "startLine": -1}, "maxBytes is": {"path": "a.txt", "maxBytes": 1 << 21},
	} {
		if got := fails(t, b, "filesystem_read", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
}

func TestWriteAndEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, "main="+dir)
	out := call[workspace.WriteOut](t, b, "filesystem_write", args{"path": "src/new/app.go", "text": "package app\n", "ifMatch": "absent"})
	if !out.Created || get(t, dir, "src/new/app.go") != "package app\n" || !strings.Contains(out.Diff, "+package app") || !strings.Contains(out.Diff, "--- /dev/null") {
		t.Errorf("%+v", out)
	}
	if err := os.Chmod(filepath.Join(dir, "src/new/app.go"), 0o750); err != nil {
		t.Fatal(err)
	}
	changed := call[workspace.WriteOut](t, b, "filesystem_write", args{"path": "src/new/app.go", "text": "package main\n\nvar a, b = 1, 1\n", "ifMatch": out.Digest})
	if info, err := os.Stat(filepath.Join(dir, "src/new/app.go")); err != nil || info.Mode().Perm() != 0o750 || changed.Created {
		t.Errorf("%v %v %+v", info.Mode(), err, changed)
	}
	for words, a := range map[string]args{
		"already exists":            {"path": "src/new/app.go", "text": "x", "ifMatch": "absent"},
		"no longer matches ifMatch": {"path": "src/new/app.go", "text": "x", "ifMatch": out.Digest},
		"does not exist, but":       {"path": "other", "text": "x", "ifMatch": out.Digest},
		"text or blob":              {"path": "other"},
		"blob is not valid base64":  {"path": "other", "blob": "%"},
		"is a directory":            {"path": "src", "text": "x"},
		"is not a directory":        {"path": "src/new/app.go/x", "text": "x"},
	} {
		if got := fails(t, b, "filesystem_write", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	if call[workspace.WriteOut](t, b, "filesystem_write", args{"path": "bin", "blob": base64.StdEncoding.EncodeToString([]byte{0, 255})}); get(t, dir, "bin") != "\x00\xff" {
		t.Error("a blob is not what was given")
	}
	edits := []args{{"oldText": "var a, b = 1, 1", "newText": "var a, b = 2, 1"}, {"oldText": ", 1", "newText": ", 3"}}
	want := "--- a/src/new/app.go\n+++ b/src/new/app.go\n@@ -1,3 +1,3 @@\n package main\n \n-var a, b = 1, 1\n+var a, b = 2, 3\n"
	before := get(t, dir, "src/new/app.go")
	shown := call[workspace.WriteOut](t, b, "filesystem_preview", args{"path": "src/new/app.go", "edits": edits})
	tried := call[workspace.WriteOut](t, b, "filesystem_edit", args{"path": "src/new/app.go", "edits": edits, "dryRun": true})
	if shown.Diff != want || shown != tried || get(t, dir, "src/new/app.go") != before {
		t.Errorf("%q", shown.Diff)
	}
	made := call[workspace.WriteOut](t, b, "filesystem_edit", args{"path": "src/new/app.go", "edits": edits, "ifMatch": changed.Digest})
	if made != shown || get(t, dir, "src/new/app.go") != "package main\n\nvar a, b = 2, 3\n" {
		t.Errorf("%+v", made)
	}
	for words, e := range map[string][]args{
		"is not in the file": {{"oldText": "nothing", "newText": ""}}, "in the file 5 times": {{"oldText": "a", "newText": "b"}}, "edits[1]": {{"oldText": "main", "newText": "x"}, {"oldText": "main", "newText": "y"}},
		"is empty": {{"oldText": "", "newText": "x"}}, "edits is empty": {}, "larger than": {{"oldText": " ", "newText": strings.Repeat("x", 100<<10), "all": true}, {"oldText": "x", "newText": strings.Repeat("y", 100), "all": true}},
	} {
		for _, tool := range []string{"filesystem_edit", "filesystem_preview"} {
			if got := fails(t, b, tool, args{"path": "src/new/app.go", "edits": e}); !strings.Contains(got, words) {
				t.Errorf("%s: %s", words, got)
			}
		}
	}
	if got := fails(t, b, "filesystem_edit", args{"path": "none", "edits": edits}); !strings.Contains(got, "filesystem_write creates one") {
		t.Error(got)
	}
	if get(t, dir, "src/new/app.go") != "package main\n\nvar a, b = 2, 3\n" {
		t.Error("a refused edit has changed the file")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "src/new/.*")); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

func TestMoveAndDelete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "a", "b": "b", "d/x": "x", "d/e/y": "y"})
	b := start(t, "main="+dir)
	if out := call[workspace.MoveOut](t, b, "filesystem_move", args{"from": "a", "to": "new/deep/a"}); out.To != "main/new/deep/a" || get(t, dir, "new/deep/a") != "a" {
		t.Errorf("%+v", out)
	}
	call[workspace.MoveOut](t, b, "filesystem_move", args{"from": "d", "to": "moved"})
	for words, pair := range map[string][2]string{"already exists": {"b", "new/deep/a"}, "does not exist": {"none", "x"}, "into itself": {"moved", "moved/in"}} {
		if got := fails(t, b, "filesystem_move", args{"from": pair[0], "to": pair[1]}); !strings.Contains(got, words) {
			t.Errorf("%v: %s", pair, got)
		}
	}
	digest := call[workspace.StatOut](t, b, "filesystem_stat", args{"path": "b"}).Digest
	for words, a := range map[string]args{"is not empty": {"path": "moved"}, "does not exist": {"path": "none"}, "no longer matches ifMatch": {"path": "b", "ifMatch": "sha256:0"}} {
		if got := fails(t, b, "filesystem_delete", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
	if out := call[workspace.DeleteOut](t, b, "filesystem_delete", args{"path": "moved", "recursive": true}); out.Removed != 4 {
		t.Errorf("%+v", out)
	}
	call[workspace.DeleteOut](t, b, "filesystem_delete", args{"path": "b", "ifMatch": digest})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestListTreeAndSearch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{
		".gitignore": "*.log\n/build/\n!keep.log\n", "a.go": "package a\n// TODO one\n", "x.log": "TODO log", "keep.log": "todo kept", "build/out.go": "TODO built",
		"src/.gitignore": "gen/\n", "src/b.go": "func B() {}\n// nothing\n// todo: two\n", "src/gen/c.go": "TODO generated", "src/build/d.go": "x TODO(d) y", ".git/x": "TODO git", "bin": "TODO\x00",
		"wide.txt": strings.Repeat("ż", 1000) + " TODO " + strings.Repeat("ż", 1000),
	})
	b := start(t, "main="+dir)
	// Page by page.
	var names []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		out := call[workspace.ListOut](t, b, "filesystem_list", args{"limit": 2, "cursor": cursor})
		for _, e := range out.Entries {
			names = append(names, e.Path)
		}
		cursor = out.NextCursor
	}
	want := []string{"main/.git", "main/.gitignore", "main/a.go", "main/bin", "main/build", "main/keep.log", "main/src", "main/wide.txt", "main/x.log"}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	tree := call[workspace.TreeOut](t, b, "filesystem_tree", args{})
	if want := "main/\n  .gitignore\n  a.go\n  bin\n  keep.log\n  src/\n    .gitignore\n    b.go\n    build/\n      d.go\n  wide.txt\n"; tree.Tree != want || tree.Files != 8 || tree.Dirs != 2 {
		t.Errorf("%+v", tree)
	}
	if tree := call[workspace.TreeOut](t, b, "filesystem_tree", args{"path": "src", "depth": 1, "limit": 2}); tree.Tree != "main/src/\n  .gitignore\n  b.go\n" || tree.Note == "" {
		t.Errorf("%+v", tree)
	}
	for _, x := range []struct {
		a    args
		want []string
	}{
		{args{"query": "TODO"}, []string{"main/a.go:2", "main/keep.log:1", "main/src/b.go:3", "main/src/build/d.go:1", "main/wide.txt:1"}},
		{args{"query": "TODO", "case": true, "path": "src"}, []string{"main/src/build/d.go:1"}},
		{args{"query": "TODO", "ignored": true, "glob": "*.go"}, []string{"main/a.go:2", "main/build/out.go:1", "main/src/b.go:3", "main/src/build/d.go:1", "main/src/gen/c.go:1"}},
		{args{"query": `todo[:(]`, "regexp": true}, []string{"main/src/b.go:3", "main/src/build/d.go:1"}},
		{args{"query": "todo[", "glob": "*.go"}, nil},
		{args{"query": "D.GO", "names": true}, []string{"main/src/build/d.go:0"}},
		{args{"query": "go", "names": true, "glob": "src/*.go"}, []string{"main/src/b.go:0"}},
		{args{"query": "nothing", "path": "src/b.go"}, []string{"main/src/b.go:2"}},
		// A search in a directory applies the ignore files above it.
		{args{"query": "TODO", "path": "src/gen"}, []string{"main/src/gen/c.go:1"}},
	} {
		out := call[workspace.SearchOut](t, b, "filesystem_search", x.a)
		var got []string
		for _, m := range out.Matches {
			got = append(got, fmt.Sprintf("%s:%d", m.Path, m.Line))
			if len(m.Text) > 400 || m.Line > 0 && !strings.Contains(strings.ToLower(m.Text), "todo") && x.a["query"] != "nothing" {
				t.Errorf("%v: %q", x.a, m.Text)
			}
		}
		if !slices.Equal(got, x.want) || out.Note != "" {
			t.Errorf("%v: %v %s", x.a, got, out.Note)
		}
	}
	if out := call[workspace.SearchOut](t, b, "filesystem_search", args{"query": "TODO", "limit": 2}); len(out.Matches) != 2 || !strings.Contains(out.Note, "more than 2") {
		t.Errorf("%+v", out)
	}
	for words, a := range map[string]args{"query is empty": {"query": ""}, "regular expression": {"query": "(", "regexp": true}, "is not a valid pattern": {"query": "x", "glob": "["}, "limit is": {"query": "x", "limit": 1001}} {
		if got := fails(t, b, "filesystem_search", a); !strings.Contains(got, words) {
			t.Errorf("%v: %s", a, got)
		}
	}
}

// Without a root every tool says how to configure one.
func TestWithoutRoots(t *testing.T) {
	t.Parallel()
	b := start(t)
	n := 0
	for _, s := range b.Services() {
		for _, tool := range s.Catalogue.Tools {
			var schema struct {
				Required   []string
				Properties map[string]struct{ Type any }
			}
			if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
				t.Fatal(err)
			}
			a := args{}
			for _, name := range schema.Required {
				if a[name] = "x"; schema.Properties[name].Type != "string" {
					a[name] = map[string]any{"paths": []string{"x"}, "edits": []args{{"oldText": "a", "newText": "b"}}}[name]
				}
			}
			switch tool.Name {
			case "filesystem_write":
				a["text"] = "x"
			case "git_worktree":
				a["branch"] = "x"
			}
			if got := fails(t, b, tool.Name, a); !strings.Contains(got, "BUSBAR_WORKSPACE_ROOTS=main=/srv/code") {
				t.Errorf("%s: %s", tool.Name, got)
			}
			if !tool.ReadOnly && !tool.RequiresUserApproval {
				t.Errorf("%s changes something without a person's approval", tool.Name)
			}
			n++
		}
		if len(s.Catalogue.ResourceTemplates) != 0 {
			t.Error("there are resources without a root")
		}
	}
	if n < 10 {
		t.Errorf("there are only %d tools", n)
	}
}

func TestTenantsAndClients(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	put(t, top, map[string]string{"all/x": "everybody's", "acme/x": "acme's", "beta/x": "beta's", "all/sub/y": "sub"})
	b := start(t, "all="+top+"/all", "acme/own="+top+"/acme", "beta/own="+top+"/beta")
	acme, beta := b.As("ann", "acme"), b.As("bob", "beta")
	for who, want := range map[*servicetest.Bus]string{acme: "acme's", beta: "beta's"} {
		if r := who.Call("filesystem_read", args{"path": "own/x"}); r.Text != want {
			t.Errorf("%s, want %s", r.Text, want)
		}
		if c, err := who.Read("workspace://own/x"); err != nil || c[0].Text != want {
			t.Errorf("%v %v", c, err)
		}
		if out := call[workspace.ListOut](t, who, "filesystem_list", args{}); len(out.Entries) != 2 {
			t.Errorf("%+v", out)
		}
	}
	if r := b.Call("filesystem_read", args{"path": "own/x"}); !r.IsError && r.Text != "" {
		t.Errorf("who has no tenant reads %s", r.Text)
	}
	fails(t, acme, "filesystem_read", args{"path": top + "/beta/x"})
	narrow := acme.Answer("roots", []service.Root{{URI: "file://" + top + "/all/sub"}})
	if r := narrow.Call("filesystem_read", args{"path": "all/sub/y"}); r.Text != "sub" {
		t.Errorf("%s %v", r.Text, r.Err)
	}
	for _, path := range []string{"all/x", "own/x"} {
		if got := fails(t, narrow, "filesystem_read", args{"path": path}); !strings.Contains(got, "outside of your client's roots") {
			t.Error(got)
		}
		if _, err := narrow.Read("workspace://" + path); err == nil {
			t.Errorf("%s is read as a resource", path)
		}
	}
	fails(t, narrow, "filesystem_write", args{"path": "all/x", "text": "no"})
}

func TestResources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a b.md": "# ü", "src/app.go": "package app", "src/api/x": "", "src/zoo/y": "", "bin": "\x00"})
	b := start(t, "main="+dir)
	if c, err := b.Read("workspace://main/a%20b.md"); err != nil || c[0].Text != "# ü" || !strings.HasPrefix(c[0].MIMEType, "text/markdown") {
		t.Errorf("%+v %v", c, err)
	}
	put(t, dir, map[string]string{"src/main.rs": "fn main() {}"})
	if c, err := b.Read("workspace://main/src/main.rs"); err != nil || c[0].MIMEType != "text/x-rust" {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := b.Read("workspace://main/bin"); err != nil || string(c[0].Blob) != "\x00" {
		t.Errorf("%+v %v", c, err)
	}
	for uri, reason := range map[string]fault.Reason{
		"workspace://main/none": fault.UnknownResource, "workspace://other/a": fault.UnknownResource, "workspace://main/src": fault.InvalidParams,
		"workspace://main/../x": fault.InvalidParams, "workspace://main/%2e%2e/x": fault.InvalidParams, "workspace://main/a%2fb": fault.InvalidParams, "workspace://main/a%00": fault.InvalidParams,
	} {
		if c, err := b.Read(uri); !fault.Is(err, reason) {
			t.Errorf("%s: %+v %v, want %s", uri, c, err, reason)
		}
	}
	const template = "workspace://{root}/{+path}"
	for typed, want := range map[string][]string{"": {"a b.md", "bin", "src/"}, "s": {"src/"}, "src/a": {"src/api/", "src/app.go"}, "src/none/": {}, "../": {}} {
		got, err := b.CompleteResource(template, "path", typed, map[string]string{"root": "main"})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", typed, got, err)
		}
	}
	if got, err := b.CompleteResource(template, "root", "m", nil); err != nil || !slices.Equal(got, []string{"main"}) {
		t.Errorf("%v %v", got, err)
	}
}

// Subscribers are told of every change of a file, whatever program makes it, also in new
// directories, but not of files that git ignores.
func TestUpdates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a.txt": "1", ".gitignore": "ignored/\n", "ignored/x": "", "sub/b.txt": "1"})
	url := bustest.Server(t)
	told := make(chan bus.Updated, 100)
	stop, err := edges.OnUpdated(bustest.Join(t, url), func(u bus.Updated) { told <- u })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	s := servicetest.Build(t, workspace.New, workspace.Env{Env: service.Env{Log: bustest.Logger(t)}, Roots: []string{"acme/main=" + dir}})
	servicetest.Join(t, bustest.Connect(t, url), s)
	seen := map[string]bool{}
	await := func(uri string, again func()) {
		t.Helper()
		bustest.Eventually(t, "an update of "+uri, func() bool {
			again() // the watch may not have begun
			for {
				select {
				case u := <-told:
					if u.Tenant != "acme" {
						t.Errorf("%+v", u)
					}
					seen[u.URI] = true
				default:
					return seen[uri]
				}
			}
		})
	}
	n := 0
	write := func(name string) func() {
		return func() { n++; put(t, dir, map[string]string{name: fmt.Sprint(n)}) }
	}
	await("workspace://main/a.txt", write("a.txt"))
	await("workspace://main/sub/b.txt", write("sub/b.txt"))
	put(t, dir, map[string]string{"new/deep/c%.txt": "1", "ignored/x": "2"})
	await("workspace://main/new/deep/c%25.txt", func() {})
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	clear(seen)
	await("workspace://main/a.txt", func() {})
	if seen["workspace://main/ignored/x"] {
		t.Error("a file that git ignores was told of")
	}
}
