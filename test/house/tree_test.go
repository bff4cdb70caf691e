// Package house holds the rules of the repository as tests: which package may import which, and the
// form of files.
//
// Go keeps a test's result while the files of its own module stay the same,
// and these tests read the others: `make lint` runs them afresh.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const prefix = "github.com/busbar-mcp/busbar/"

// source is one Go file of the repository.
type source struct {
	// path is relative to the root, with slashes; dir is its directory.
	path, dir string
	pkg       string
	test      bool // a test file, or in the module of tests
	generated bool
	lines     int
	imports   []string
	literals  []literal
	comments  []literal // by paragraph, without code
	calls     []string  // names of the methods and functions that are called
}

type literal struct {
	line int
	text string
}

// ours returns the directories of this repository that a file imports.
func (s source) ours() []string {
	var dirs []string
	for _, p := range s.imports {
		if dir, ok := strings.CutPrefix(p, prefix); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// within reports whether a directory is one of rooms or below one.
func within(dir string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		return dir == room || strings.HasPrefix(dir, room+"/")
	})
}

// root is where go.work lies.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.work above the working directory")
		}
		dir = parent
	}
}

// sources reads every Go file of the repository. A file that does not parse counts up to the error:
// building is another test's task.
func sources(t *testing.T) []source {
	t.Helper()
	top := root(t)
	var all []source
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(top, path, d) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		s, err := read(path, filepath.ToSlash(rel))
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// skipped are directories with nothing of ours in them.
func skipped(top, path string, d fs.DirEntry) bool {
	return d.Name() == "testdata" || d.Name() == "node_modules" || path == filepath.Join(top, "bin") ||
		path != top && strings.HasPrefix(d.Name(), ".")
}

func read(path, rel string) (source, error) {
	s := source{path: rel, dir: filepath.ToSlash(filepath.Dir(rel))}
	s.test = strings.HasSuffix(rel, "_test.go") || within(s.dir, "test")
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	files := token.NewFileSet()
	file, _ := parser.ParseFile(files, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil {
		return s, nil
	}
	s.pkg = file.Name.Name
	s.generated = ast.IsGenerated(file)
	s.lines = strings.Count(string(data), "\n")
	for _, spec := range file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		s.imports = append(s.imports, p)
	}
	for _, group := range file.Comments {
		line := files.Position(group.Pos()).Line
		for paragraph := range strings.SplitSeq(strings.TrimSpace(group.Text()), "\n\n") {
			if !strings.HasPrefix(paragraph, "\t") {
				s.comments = append(s.comments, literal{line, paragraph})
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			s.literals = append(s.literals, literal{files.Position(lit.Pos()).Line, text})
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				s.calls = append(s.calls, sel.Sel.Name)
			}
		}
		return true
	})
	return s, nil
}
