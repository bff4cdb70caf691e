package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func open(t testing.TB, settings ...string) *root.Roots {
	t.Helper()
	rs, err := root.Open(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	return rs
}

func dir(t testing.TB, elements ...string) string {
	t.Helper()
	d := filepath.Join(elements...)
	if err := os.MkdirAll(d, 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func view(t testing.TB, rs *root.Roots, tenant string, client ...string) *root.View {
	t.Helper()
	v, err := rs.View(tenant, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func TestSettings(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	a, b, inner := dir(t, top, "a"), dir(t, top, "b"), dir(t, top, "a", "inner")
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, good := range [][]string{
		nil, {""}, {"main=" + a}, {"main=" + a, "docs=" + b}, {"acme/main=" + a, "beta/main=" + b}, {"main=" + a, "part=" + inner},
		{"acme/main=" + a, "docs=" + b},
	} {
		open(t, good...)
	}
	for words, bad := range map[string][]string{
		"write NAME=DIR":        {a},
		"NAME=DIR, such":        {"=" + a},
		"such as main=":         {"main="},
		"letters, digits":       {"ma in=" + a},
		"or TENANT/NAME":        {"/main=" + a},
		"in a name":             {"acme/be/ta=" + a},
		"no such file":          {"main=" + filepath.Join(top, "none")},
		"not a directory":       {"main=" + filepath.Join(top, "file")},
		"whole file system":     {"main=/"},
		"two roots of the same": {"main=" + a, "main=" + b},
		"of the same name":      {"main=" + a, "acme/main=" + b},
		"shares directories":    {"main=" + a, "acme/part=" + inner},
	} {
		rs, err := root.Open(bad)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v, want %q", bad, err, words)
		}
		if rs != nil {
			_ = rs.Close()
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	a, b := dir(t, top, "a"), dir(t, top, "b")
	one, two := open(t, "main="+a), open(t, "main="+a, "docs="+b, "acme/own="+dir(t, top, "c"))
	for _, x := range []struct {
		rs         *root.Roots
		tenant     string
		path, want string
	}{
		{one, "", "", "main"}, {one, "", ".", "main"}, {one, "", "main", "main"}, {one, "", "main/", "main"},
		{one, "", "x.go", "main/x.go"}, {one, "", "./x//y/", "main/x/y"}, {one, "", "main/x.go", "main/x.go"},
		{one, "", "main/main/x", "main/main/x"}, {one, "", a + "/x.go", "main/x.go"}, {one, "", a, "main"},
		{two, "", "docs/x.md", "docs/x.md"}, {two, "", b + "/x.md", "docs/x.md"}, {two, "acme", "own/x", "own/x"},
	} {
		p, err := view(t, x.rs, x.tenant).Find(x.path)
		if err != nil || p.String() != x.want {
			t.Errorf("%q of %q: %v %v, want %s", x.path, x.tenant, p, err, x.want)
		}
	}
	for _, x := range []struct{ tenant, path, words string }{
		{"", "x.go", "several workspace roots"}, {"", "", "docs, main"}, {"", "own/x", "several"}, {"beta", "own/x", "several"},
		{"", a + "2/x", "not in a workspace root"}, {"", "/", "not in a workspace root"}, {"", filepath.Join(top, "c", "x"), "not in a workspace root"},
		{"", "docs/../main/x", ".."}, {"", "docs/..", ".."}, {"", "docs\\x", "backslash"}, {"", "docs/\x00", "control"},
		{"", "docs/\xff", "UTF-8"}, {"", "docs/" + strings.Repeat("x", 256), "longer than 255"}, {"", strings.Repeat("x/", 3000), "longer than 4096"},
		{"", strings.Repeat("x/", 200), "more than 128"},
	} {
		if p, err := view(t, two, x.tenant).Find(x.path); err == nil || !strings.Contains(err.Error(), x.words) {
			t.Errorf("%q of %q: %v %v, want %q", x.path, x.tenant, p, err, x.words)
		} else if strings.Contains(err.Error(), top) {
			t.Errorf("%q: the error names the directory: %v", x.path, err)
		}
	}
	if _, err := open(t).View("", nil); err == nil || !strings.Contains(err.Error(), "--workspace-root main=/srv/code") {
		t.Errorf("without a root: %v", err)
	}
	if _, err := open(t, "acme/own="+a).View("beta", nil); err == nil || !strings.Contains(err.Error(), "your tenant") {
		t.Errorf("without a root of the tenant: %v", err)
	}
}

// A client's own roots can only narrow the view, never widen it.
func TestClientRoots(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	a, b := dir(t, top, "a"), dir(t, top, "b")
	dir(t, a, "in", "deep")
	dir(t, top, "outside")
	if err := os.Symlink(filepath.Join(top, "outside"), filepath.Join(a, "link")); err != nil {
		t.Fatal(err)
	}
	rs := open(t, "main="+a, "docs="+b)
	for _, x := range []struct {
		client    []string
		in        []string
		out       []string
		openRoots int
	}{
		{nil, []string{"main/x", "docs/x"}, nil, 2},
		{[]string{"file://" + a}, []string{"main/x", "main"}, []string{"docs/x"}, 1},
		{[]string{"file://" + top}, []string{"main/x", "docs/x"}, []string{filepath.Join(top, "outside", "x")}, 2},
		{[]string{"file:///"}, []string{"main/x", "docs/x"}, []string{"/etc/passwd"}, 2},
		{[]string{"file://" + a + "/in"}, []string{"main/in/x", "main/in", "main/in/deep/x"}, []string{"main/x", "main/inside", "docs/x", "main"}, 1},
		{[]string{"file://localhost" + a + "/in/", "file://" + b}, []string{"main/in/x", "docs/x"}, []string{"main/x"}, 2},
		{[]string{"workspace://docs"}, []string{"docs/x"}, []string{"main/x"}, 1},
		{[]string{"workspace://main/in/deep"}, []string{"main/in/deep/x"}, []string{"main/in/x"}, 1},
		{[]string{"file:///home/ada"}, nil, []string{"main/x", "docs/x"}, 0},
		{[]string{"file://" + a + "/link"}, nil, []string{"main/link/x", "main/x"}, 0},
		{[]string{"file://" + a + "/none"}, nil, []string{"main/none/x", "main/x"}, 0},
		{[]string{"file://" + a + "/in/../../b"}, nil, []string{"docs/x", "main/x"}, 0},
		{[]string{"file://evil" + a}, nil, []string{"main/x"}, 0},
		{[]string{"https://example.com/", "", "%", "nonsense"}, nil, []string{"main/x"}, 0},
	} {
		v := view(t, rs, "", x.client...)
		if n := len(v.Places()); n != x.openRoots {
			t.Errorf("%v: %d roots are open, want %d", x.client, n, x.openRoots)
		}
		for _, p := range x.in {
			if got, err := v.Find(p); err != nil || got.String() != p {
				t.Errorf("%v: %s: %v %v", x.client, p, got, err)
			}
		}
		for _, p := range x.out {
			if got, err := v.Find(p); err == nil {
				t.Errorf("%v: %s is open: %v", x.client, p, got)
			}
		}
	}
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		".git", ".git/config", "a/.git/hooks/x", ".GIT/config", ".Git", ".git.", ".git ", ".git. .", ".g\u200cit/config", "\ufeff.git", ".gİt", ".gıt",
		"git~1/config", "GIT~2", ".git::$INDEX_ALLOCATION", ".git:x", ".busbar/workspace.yaml", ".BUSBAR", ".buſbar/x", "a/.busbar",
	} {
		if root.Guarded(p) == "" {
			t.Errorf("%q is not guarded", p)
		}
	}
	for _, p := range []string{".", ".gitignore", "git", "a.git", ".github/x", "busbar", ".gitattributes", "x.git/config"} {
		if g := root.Guarded(p); g != "" {
			t.Errorf("%q is guarded as %s", p, g)
		}
	}
}

// FuzzFind: whatever the path, the place is in the root, and finding it again gives
// the same place.
func FuzzFind(f *testing.F) {
	v := view(f, open(f, "main="+dir(f, f.TempDir(), "a")), "")
	for _, p := range []string{"", "a/b", "main/a", "../x", "/etc/passwd", "a/./b//", "main", "\x00", "a\\..\\b", "workspace://main/x", "main/docs/./..//x", "main/docs//../x", "main/docs/.../x", "main/docs/", "main/docs//etc"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := v.Find(path)
		if err != nil {
			return
		}
		if !filepath.IsLocal(p.Path) || strings.ContainsAny(p.Path, "\x00\\") || filepath.Clean(p.Path) != p.Path {
			t.Errorf("%q is %q", path, p.Path)
		}
		// A path that a policy condition admits by its prefix lies there.
		if full := p.Full(); strings.HasPrefix(path, "main/docs/") && full != "docs" && !strings.HasPrefix(full, "docs/") {
			t.Errorf("%q is %q", path, full)
		}
		again, err := v.Find(p.String())
		if err != nil || again.Path != p.Path {
			t.Errorf("%q is %q, and %q is %q: %v", path, p.Path, p.String(), again.Path, err)
		}
		byURI, err := v.FindURI(p.URI())
		if err != nil || byURI.Path != p.Path {
			t.Errorf("%q: %q is %q: %v", path, p.URI(), byURI.Path, err)
		}
	})
}
