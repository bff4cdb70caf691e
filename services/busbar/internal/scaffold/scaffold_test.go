package scaffold_test

import (
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/busbar-mcp/busbar/services/busbar/internal/scaffold"
)

// top is this repository, the clone of these tests.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../..")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWrite(t *testing.T) {
	t.Parallel()
	clone, home := top(t), t.TempDir()
	// The directory's parent is reached by a link: what is relative in go.mod is not.
	if err := os.MkdirAll(filepath.Join(home, "far", "away"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "far", "away"), filepath.Join(home, "here")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "here", "shop") + "/"
	s, err := scaffold.New(scaffold.Options{Name: "Shop-1", Module: "git.example.com/shop/v2", Dir: dir, Clone: clone})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, dir), []string{".gitignore", "Dockerfile", "README.md", "go.mod", "go.sum", "main.go", "main_test.go"}; !slices.Equal(got, want) {
		t.Errorf("there are %v", got)
	}
	for _, name := range []string{"main.go", "main_test.go"} {
		text := read(t, dir, name)
		if good, err := format.Source([]byte(text)); err != nil || string(good) != text || !strings.Contains(text, `"Shop-1`) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	mod, err := modfile.Parse("go.mod", []byte(read(t, dir, "go.mod")), nil)
	if err != nil || mod.Module.Mod.Path != "git.example.com/shop/v2" {
		t.Fatalf("go.mod: %v\n%s", err, read(t, dir, "go.mod"))
	}
	ours := slices.DeleteFunc(mod.Require, func(r *modfile.Require) bool { return !strings.HasPrefix(r.Mod.Path, "github.com/busbar-mcp/busbar/") })
	where := map[string]bool{}
	for _, r := range mod.Replace {
		where[r.Old.Path] = true
	}
	for _, r := range ours {
		if !where[r.Mod.Path] {
			t.Errorf("go.mod does not say where %s is:\n%s", r.Mod.Path, read(t, dir, "go.mod"))
		}
	}
	// The first import of any module works.
	for _, dir := range strings.Fields(read(t, clone, "go.work")) {
		if path := "github.com/busbar-mcp/busbar" + strings.TrimPrefix(dir, "."); (dir == "./gen" || strings.HasPrefix(dir, "./libs")) && !where[path] {
			t.Errorf("go.mod does not say where %s is", path)
		}
	}
	for _, r := range mod.Replace {
		if found := read(t, home, "far", "away", "shop", r.New.Path, "go.mod"); !strings.HasPrefix(found, "module "+r.Old.Path+"\n") {
			t.Errorf("%s is not at %s", r.Old.Path, r.New.Path)
		}
	}
	// An image is made as ours are.
	image, theirs := read(t, clone, "deploy", "Dockerfile"), read(t, dir, "Dockerfile")
	for _, line := range []string{"FROM --platform=", "\tCGO_ENABLED=0", "\t-ldflags", "FROM scratch", "USER ", "ENTRYPOINT"} {
		if line := beginning(image, line); line == "" || !strings.Contains(theirs, line) {
			t.Errorf("deploy/Dockerfile has %q, the service's has not:\n%s", line, theirs)
		}
	}
	if !strings.Contains(theirs, "-t shop-1 .") {
		t.Error("an image has no capitals in its name:", theirs)
	}
	if got := list(t, filepath.Join(home, "here")); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("something is left: %v", got)
	}
}

// With a database it is examples/notes under another name, which is built and tested here.
func TestWithDatabase(t *testing.T) {
	t.Parallel()
	clone, home := top(t), t.TempDir()
	files := []string{"main.go", "main_test.go", "migrations/both/00001_note.sql"}
	for name, o := range map[string]scaffold.Options{
		"notes":  {Name: "notes", Clone: clone},
		"Shop-1": {Name: "Shop-1", Release: "v1.2.3"},
	} {
		o.Database, o.Dir = true, filepath.Join(home, name)
		s, err := scaffold.New(o)
		if err == nil {
			err = s.Write()
		}
		if err != nil {
			t.Fatal(err)
		}
		mod := read(t, o.Dir, "go.mod")
		if !strings.Contains(mod, "github.com/busbar-mcp/busbar/libs/database v") || o.Release != "" && strings.Count(mod, o.Release) != 3 {
			t.Errorf("go.mod of %s:\n%s", name, mod)
		}
		if text := read(t, o.Dir, "README.md"); !strings.Contains(text, "busbar call "+name+`_add text="one bus"`) || !strings.Contains(text, "migrations/both") {
			t.Errorf("README.md of %s:\n%s", name, text)
		}
		for _, file := range files {
			text := read(t, o.Dir, file)
			if good, err := format.Source([]byte(text)); strings.HasSuffix(file, ".go") && (err != nil || string(good) != text) {
				t.Errorf("%s of %s: %v", file, name, err)
			}
			if name == "notes" {
				if text != read(t, clone, "examples", "notes", file) {
					t.Errorf("%s is another one than that of examples/notes; change both", file)
				}
				continue
			}
			if strings.Contains(text, "notes_") || file != "main_test.go" && !strings.Contains(text, "shop_1_note") {
				t.Errorf("%s of %s:\n%s", file, name, text)
			}
		}
	}
	s, err := scaffold.New(scaffold.Options{Name: strings.Repeat("n", 64), Database: true, Release: "v1.2.3", Dir: filepath.Join(home, "long")})
	if err == nil {
		err = s.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, home, "long", files[2]); !strings.Contains(text, "TABLE "+strings.Repeat("n", 40)+"_note ") {
		t.Errorf("a table has a longer name than Postgres takes:\n%s", text)
	}
}

// beginning is the line that begins so, up to what is after "-o" or "PROGRAM".
func beginning(text, with string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, with) {
			line, _, _ = strings.Cut(line, " -o ")
			return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "./$PROGRAM \\")
		}
	}
	return ""
}

// A service of a release requires its modules by version, and nothing in it is about a clone.
func TestRelease(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "shop")
	s, err := scaffold.New(scaffold.Options{Name: "shop", Dir: dir, Release: "v1.2.3"})
	if err == nil {
		err = s.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := modfile.Parse("go.mod", []byte(read(t, top(t), "examples", "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", []byte(read(t, dir, "go.mod")), nil)
	if err != nil || len(mod.Replace) != 0 || mod.Go.Version != theirs.Go.Version {
		t.Fatalf("%v %+v", err, mod)
	}
	var required []string
	for _, r := range mod.Require {
		required = append(required, r.Mod.Path+"@"+r.Mod.Version)
	}
	if want := []string{"github.com/busbar-mcp/busbar/libs@v1.2.3", "github.com/busbar-mcp/busbar/libs/service/servicetest@v1.2.3"}; !slices.Equal(required, want) {
		t.Errorf("requires %v, want %v", required, want)
	}
	if got, want := list(t, dir), []string{".gitignore", "Dockerfile", "README.md", "go.mod", "main.go", "main_test.go"}; !slices.Equal(got, want) {
		t.Errorf("there are %v", got)
	}
	for _, name := range []string{"Dockerfile", "README.md"} {
		text := read(t, dir, name)
		for _, of := range []string{"clone", "replace", "from=busbar", "build-context"} {
			if strings.Contains(text, of) {
				t.Errorf("%s has %q:\n%s", name, of, text)
			}
		}
	}
	for program, want := range map[string]string{"1.2.3": "v1.2.3", "0.1.0-dev": "", "0.1.0-dev+g0123456789ab": "", "1.2.3+4.g0123": "", "1.2.3-rc.1": "", "": ""} {
		if got := scaffold.Released(program); got != want {
			t.Errorf("%s goes with %q, want %q", program, got, want)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	o := scaffold.Options{Name: "shop", Dir: filepath.Join(home, "shop"), Clone: top(t)}
	s, err := scaffold.New(o)
	if err != nil {
		t.Fatal(err)
	}
	// Somebody was faster.
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(); err == nil {
		t.Error("a directory was written into")
	}
	if got := list(t, o.Dir); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
	if got := list(t, home); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("something is left: %v", got)
	}
	for _, there := range []string{"shop", "file", "link"} {
		o.Dir = filepath.Join(home, there)
		switch there {
		case "file":
			err = os.WriteFile(o.Dir, nil, 0o600)
		case "link":
			err = os.Symlink("nowhere", o.Dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scaffold.New(o); err == nil || !strings.Contains(err.Error(), "there already") {
			t.Errorf("%s: %v", there, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	home, clone := t.TempDir(), top(t)
	for want, o := range map[string]scaffold.Options{
		`name "": use`:              {},
		`name "../x": use`:          {Name: "../x"},
		`name "edge" is taken`:      {Name: "edge"},
		`name "-x": begin with`:     {Name: "-x"},
		`a service of Busbar has`:   {Name: "text"},
		"missing dot":               {Name: "shop", Module: "fmt"},
		"malformed module path":     {Name: "shop", Module: "example.com/a b"},
		"what the service depends":  {Name: "shop", Module: "github.com/busbar-mcp/busbar/libs/shop"},
		"is not a clone of Bus":     {Name: "shop", Clone: home},
		"--release v1.2: a version": {Name: "shop", Release: "v1.2"},
		"--release 1.2.3: a vers":   {Name: "shop", Release: "1.2.3"},
		"libs: that is what the se": {Name: "shop", Module: "github.com/busbar-mcp/busbar/libs", Release: "v1.2.3"},
		"that %/none/shop would be": {Name: "shop", Dir: filepath.Join(home, "none", "shop")},
		"is inside the clone":       {Name: "shop", Dir: filepath.Join(clone, "services", "shop")},
	} {
		if o.Dir == "" {
			o.Dir = filepath.Join(home, "shop")
		}
		if o.Clone == "" && o.Release == "" {
			o.Clone = clone
		}
		o.Taken = []string{"text"}
		if _, err := scaffold.New(o); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "%", home)) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if got := list(t, home); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	clone, home := top(t), t.TempDir()
	with := filepath.Join(home, "with")
	for _, dir := range []string{filepath.Join(with, "shop"), filepath.Join(home, "without")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	beside := filepath.Join(with, "busbar")
	if err := os.Symlink(clone, beside); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(home, "busbar-1.0", "busbar")
	for _, c := range []struct{ dir, program, want string }{
		{clone, elsewhere, clone},
		{filepath.Join(clone, "docs", "adr"), elsewhere, clone},
		{with, elsewhere, beside},
		{filepath.Join(with, "shop"), elsewhere, beside},
		{filepath.Join(home, "without"), filepath.Join(clone, "bin", "busbar"), clone},
		{filepath.Join(home, "without"), elsewhere, ""},
	} {
		if got := scaffold.Guess(c.dir, c.program); got != c.want {
			t.Errorf("from %s by %s: %q, want %q", c.dir, c.program, got, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"../shop-1": "../shop-1", "my shop": "'my shop'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := scaffold.Quote(path); got != want {
			t.Errorf("%q is written %s", path, got)
		}
	}
}
