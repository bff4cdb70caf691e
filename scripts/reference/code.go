package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/busbar-mcp/busbar/"

// code is the parsed source of all programs, without tests and generated code.
type code struct {
	root string
	fset *token.FileSet
	// dirs are the packages by directory, relative to root.
	dirs map[string]*pkg
}

type pkg struct {
	dir   string
	files []*file
}

type file struct {
	*ast.File
	pkg  *pkg
	path string
	text string
}

// rooms are the directories with the code of programs.
var rooms = []string{"libs", "services", "examples"}

func readCode(root string) (*code, error) {
	c := &code{root, token.NewFileSet(), map[string]*pkg{}}
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "testdata" {
				return orSkip(err)
			}
			if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			return c.add(path)
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func orSkip(err error) error {
	if err == nil {
		return fs.SkipDir
	}
	return err
}

func (c *code) add(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(c.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(c.root, path)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	dir := rel[:strings.LastIndexByte(rel, '/')]
	p := c.dirs[dir]
	if p == nil {
		p = &pkg{dir: dir}
		c.dirs[dir] = p
	}
	p.files = append(p.files, &file{parsed, p, rel, string(text)})
	return nil
}

// files returns all files in the order of their paths.
func (c *code) files() []*file {
	var all []*file
	for _, dir := range slices.Sorted(maps.Keys(c.dirs)) {
		all = append(all, c.dirs[dir].files...)
	}
	return all
}

// imported returns the package of this repository that a file knows by a name, or nil.
func (c *code) imported(f *file, name string) *pkg {
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		dir, ours := strings.CutPrefix(path, module)
		p := c.dirs[dir]
		if err != nil || !ours || p == nil {
			continue
		}
		if i.Name != nil && i.Name.Name == name || i.Name == nil && p.files[0].Name.Name == name {
			return p
		}
	}
	return nil
}

// structOf is a struct type, the file that declares it, and the types of its parameters.
type structOf struct {
	file *file
	spec *ast.TypeSpec
	with map[string]*structOf
}

// find returns the struct that an expression names in a file, or nil.
func (c *code) find(f *file, e ast.Expr, with map[string]*structOf) *structOf {
	switch e := e.(type) {
	case *ast.StarExpr:
		return c.find(f, e.X, with)
	case *ast.Ident:
		if s, ok := with[e.Name]; ok {
			return s
		}
		return f.pkg.structNamed(e.Name)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			if p := c.imported(f, x.Name); p != nil {
				return p.structNamed(e.Sel.Name)
			}
		}
	case *ast.IndexExpr:
		if s := c.find(f, e.X, with); s != nil && s.spec.TypeParams != nil {
			s.with = map[string]*structOf{s.spec.TypeParams.List[0].Names[0].Name: c.find(f, e.Index, with)}
			return s
		}
	}
	return nil
}

// specs are the declarations of types, constants and variables of a package.
func (p *pkg) specs() iter.Seq2[*file, ast.Spec] {
	return func(yield func(*file, ast.Spec) bool) {
		for _, f := range p.files {
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				for i := 0; ok && i < len(g.Specs); i++ {
					if !yield(f, g.Specs[i]) {
						return
					}
				}
			}
		}
	}
}

func (p *pkg) structNamed(name string) *structOf {
	for f, s := range p.specs() {
		spec, ok := s.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			continue
		}
		if _, ok := spec.Type.(*ast.StructType); ok {
			return &structOf{file: f, spec: spec}
		}
	}
	return nil
}

// function returns a function of a package, and its file.
func (p *pkg) function(name string) (*file, *ast.FuncDecl) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return f, fn
			}
		}
	}
	return nil, nil
}
