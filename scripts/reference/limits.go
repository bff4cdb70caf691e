package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// limit is a constant with a comment "//limit:SECTION what | what happens at it | setting" above it. A
// section that ends in .bytes or .count says the unit, if the constant does not show it; @name after
// it says which of several constants of one line it is. The value of a field is its default tag, and
// its setting is its variable.
type limit struct {
	path, section string
	cells         []string
}

// limitMark begins the comment of a limit.
const limitMark = "//limit:"

type limits struct {
	all   []limit
	shown map[string]bool
}

func findLimits(c *code) (*limits, error) {
	l := &limits{shown: map[string]bool{}}
	var err error
	for _, f := range c.files() {
		marks := strings.Count(f.text, "\n"+limitMark) + strings.Count(f.text, "\t"+limitMark)
		before := len(l.all)
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if v, ok := n.Specs[0].(*ast.ValueSpec); ok && !n.Lparen.IsValid() {
					err = cmp.Or(err, l.constant(c, f, n.Doc, v))
				}
			case *ast.ValueSpec:
				err = cmp.Or(err, l.constant(c, f, n.Doc, n))
			case *ast.Field:
				err = cmp.Or(err, l.field(f, n))
			}
			return true
		})
		if err == nil && len(l.all)-before != marks {
			err = fmt.Errorf("%s: %d comments begin with %s, and %d are above a constant or a field", f.path, marks, limitMark, len(l.all)-before)
		}
	}
	return l, err
}

func (l *limits) constant(c *code, f *file, doc *ast.CommentGroup, v *ast.ValueSpec) error {
	for _, text := range marked(doc) {
		if len(v.Values) == 0 {
			return fmt.Errorf("%s: %s has no value", f.path, v.Names[0].Name)
		}
		section, _, _ := strings.Cut(text, " ")
		section, name, _ := strings.Cut(section, "@")
		section, unit, _ := strings.Cut(section, ".")
		at := 0
		for i := range v.Names {
			if v.Names[i].Name == name {
				at = i
			}
		}
		if name == "" && len(v.Names) > 1 {
			return fmt.Errorf("%s: %s@ must say which of several constants it is about", f.path, limitMark+section)
		}
		value, ok := c.value(f, v.Values[at])
		if !ok {
			return fmt.Errorf("%s: the value of %s cannot be computed", f.path, v.Names[at].Name)
		}
		value.bytes = unit == "bytes" || value.bytes && unit != "count"
		l.add(f, section, text, value.String(), "")
	}
	return nil
}

func (l *limits) field(f *file, field *ast.Field) error {
	for _, text := range marked(field.Doc) {
		if field.Tag == nil {
			return fmt.Errorf("%s: a field with a limit has no tag", f.path)
		}
		plain, _ := strconv.Unquote(field.Tag.Value)
		tag := reflect.StructTag(plain)
		said := value{}
		if n, err := strconv.ParseInt(tag.Get("default"), 10, 64); err == nil {
			said.n = n
		} else if d, err := time.ParseDuration(tag.Get("default")); err == nil {
			said.n, said.time = int64(d), true
		} else {
			return fmt.Errorf("%s: the default of %s must be a number or a time", f.path, tag.Get("env"))
		}
		section, _, _ := strings.Cut(text, " ")
		section, unit, _ := strings.Cut(section, ".")
		said.bytes = unit == "bytes"
		l.add(f, section, text, said.String(), quoted(tag.Get("env")))
	}
	return nil
}

// marked are the texts of a comment's lines that describe a limit.
func marked(doc *ast.CommentGroup) (all []string) {
	if doc == nil {
		return nil
	}
	for _, line := range doc.List {
		if text, ok := strings.CutPrefix(line.Text, limitMark); ok {
			all = append(all, text)
		}
	}
	return all
}

func (l *limits) add(f *file, section, text, value, setting string) {
	_, text, _ = strings.Cut(text, " ")
	cells := append(strings.Split(text, "|"), "", "")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if setting = cmp.Or(cells[2], setting); setting != "" {
		cells[0] += " (" + setting + ")"
	}
	l.all = append(l.all, limit{f.path, section, []string{cells[0], value, cmp.Or(cells[1], "–")}})
}

// table shows the limits of a section, in the order of their files. The column of
// what happens is left out if it would be empty.
func (l *limits) table(section string) string {
	var rows [][]string
	for _, one := range l.all {
		if one.section == section {
			l.shown[section] = true
			rows = append(rows, one.cells)
		}
	}
	header := []string{"limit", "value", "at it"}
	if !slices.ContainsFunc(rows, func(cells []string) bool { return cells[2] != "–" }) {
		header = header[:2]
		for i := range rows {
			rows[i] = rows[i][:2]
		}
	}
	return table(header, rows)
}

func (l *limits) left() error {
	for _, one := range l.all {
		if !l.shown[one.section] {
			return fmt.Errorf("%s: no page in scripts/reference/pages has section %s", one.path, one.section)
		}
	}
	return nil
}

// value is a constant: a time, a size or a number.
type value struct {
	n           int64
	time, bytes bool
}

func (v value) String() string {
	d := time.Duration(v.n)
	switch {
	case v.time && d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case v.time && d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case v.time && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case v.time:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case v.bytes && v.n%(1<<30) == 0 && v.n > 0:
		return fmt.Sprintf("%d GiB", v.n>>30)
	case v.bytes && v.n%(1<<20) == 0 && v.n > 0:
		return fmt.Sprintf("%d MiB", v.n>>20)
	case v.bytes && v.n%(1<<10) == 0 && v.n > 0:
		return fmt.Sprintf("%d KiB", v.n>>10)
	}
	s := strconv.FormatInt(v.n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v.bytes {
		s += " bytes"
	}
	return s
}

var units = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// value computes an expression of numbers, units of time and constants of this repository.
func (c *code) value(f *file, e ast.Expr) (value, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return value{n: n}, err == nil && e.Kind == token.INT
	case *ast.ParenExpr:
		return c.value(f, e.X)
	case *ast.Ident:
		return c.named(f.pkg, e.Name)
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return c.value(f, e.Args[0])
		}
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		if !ok {
			return value{}, false
		}
		if x.Name == "time" {
			unit := units[e.Sel.Name]
			return value{n: int64(unit), time: true}, unit > 0
		}
		if p := c.imported(f, x.Name); p != nil {
			return c.named(p, e.Sel.Name)
		}
	case *ast.BinaryExpr:
		x, okX := c.value(f, e.X)
		y, okY := c.value(f, e.Y)
		v := value{time: x.time || y.time, bytes: x.bytes || y.bytes || e.Op == token.SHL && y.n >= 10}
		switch {
		case e.Op == token.MUL:
			v.n = x.n * y.n
		case e.Op == token.SHL:
			v.n = x.n << y.n
		case e.Op == token.ADD:
			v.n = x.n + y.n
		case e.Op == token.SUB:
			v.n = x.n - y.n
		case e.Op == token.QUO && y.n != 0:
			v.n = x.n / y.n
		default:
			return v, false
		}
		return v, okX && okY
	}
	return value{}, false
}

// named computes a constant or variable of a package by its name.
func (c *code) named(p *pkg, name string) (value, bool) {
	for f, s := range p.specs() {
		v, ok := s.(*ast.ValueSpec)
		for i := 0; ok && i < len(v.Values); i++ {
			if v.Names[i].Name == name {
				return c.value(f, v.Values[i])
			}
		}
	}
	return value{}, false
}
