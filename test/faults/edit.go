package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// edit changes the statement on the line of the comment "// fault:TAG" in the product, or the
// statement below a comment that is alone on its line. The statement is found in the syntax tree, so
// an edit holds when names and files change.
type edit struct {
	tag string
	how change
}

// change returns a statement with the change; text returns the source of a part of the statement.
type change func(s ast.Stmt, text func(ast.Node) string) (string, error)

// skip leaves the statement out.
func skip(s ast.Stmt, text func(ast.Node) string) (string, error) {
	return "if false {\n" + text(s) + "\n}", nil
}

// before puts code in front of the statement.
func before(code string) change {
	return func(s ast.Stmt, text func(ast.Node) string) (string, error) { return code + "\n" + text(s), nil }
}

// twice evaluates the right side of an assignment once more.
func twice(s ast.Stmt, text func(ast.Node) string) (string, error) {
	a, ok := s.(*ast.AssignStmt)
	if !ok || len(a.Rhs) != 1 {
		return "", fmt.Errorf("not an assignment of one value: %s", text(s))
	}
	return "_ = " + text(a.Rhs[0]) + "\n" + text(s), nil
}

// when makes another condition decide, of an if or a case. The names in the old one stay in use.
func when(other string) change { return condition("(" + other + ") || false && (%s)") }

// unless turns the condition of an if or a case around.
var unless = condition("!(%s)")

func condition(format string) change {
	return func(s ast.Stmt, text func(ast.Node) string) (string, error) {
		var old ast.Expr
		switch s := s.(type) {
		case *ast.IfStmt:
			old = s.Cond
		case *ast.CaseClause:
			if len(s.List) == 1 {
				old = s.List[0]
			}
		}
		if old == nil {
			return "", fmt.Errorf("neither an if nor a case with one condition: %s", text(s))
		}
		whole := text(s)
		at := int(old.Pos() - s.Pos())
		return whole[:at] + fmt.Sprintf(format, text(old)) + whole[at+len(text(old)):], nil
	}
}

// swap replaces an expression that is once in the statement.
func swap(old, code string) change {
	return func(s ast.Stmt, text func(ast.Node) string) (string, error) {
		var all []ast.Expr
		ast.Inspect(s, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && text(e) == old {
				all = append(all, e)
			}
			return true
		})
		if len(all) != 1 {
			return "", fmt.Errorf("%q is in it %d times: %s", old, len(all), text(s))
		}
		at := int(all[0].Pos() - s.Pos())
		return text(s)[:at] + code + text(s)[at+len(old):], nil
	}
}

const tagMark = "// fault:"

// tagged returns the files of the product with tags, by tag.
func tagged(root string) (map[string][]string, error) {
	files := map[string][]string{}
	for _, dir := range []string{"libs", "services"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			raw, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			for line := range strings.Lines(string(raw)) {
				if _, tag, found := strings.Cut(line, tagMark); found {
					files[strings.TrimSpace(tag)] = append(files[strings.TrimSpace(tag)], name)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// edited returns the files that edits change, as they are then.
func edited(root string, edits []edit) (map[string][]byte, error) {
	where, err := tagged(root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range edits {
		if n := len(where[e.tag]); n != 1 {
			return nil, fmt.Errorf("the comment %s%s is there %d times: %q", tagMark, e.tag, n, where[e.tag])
		}
		name := where[e.tag][0]
		source, seen := files[name]
		if !seen {
			if source, err = os.ReadFile(filepath.Join(root, name)); err != nil {
				return nil, err
			}
		}
		if files[name], err = e.apply(name, source); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, e.tag, err)
		}
	}
	return files, nil
}

func (e edit) apply(name string, source []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	line := func(p token.Pos) int { return set.Position(p).Line }
	at := 0
	for _, group := range file.Comments {
		if i := slices.IndexFunc(group.List, func(c *ast.Comment) bool { return c.Text == tagMark+e.tag }); i >= 0 {
			at = line(group.List[i].Pos())
		}
	}
	var beside, below ast.Stmt
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(ast.Stmt)
		if _, block := n.(*ast.BlockStmt); !ok || block {
			return true
		}
		switch {
		case line(s.Pos()) == at && beside == nil:
			beside = s
		case line(s.Pos()) == at+1 && below == nil:
			below = s
		}
		return true
	})
	if beside == nil {
		beside = below
	}
	if beside == nil {
		return nil, fmt.Errorf("no statement begins on line %d or below", at)
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	text := func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) }
	code, err := e.how(beside, text)
	if err != nil {
		return nil, err
	}
	return slices.Concat(source[:offset(beside.Pos())], []byte(code), source[offset(beside.End()):]), nil
}
