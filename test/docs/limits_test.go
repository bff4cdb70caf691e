package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitRows are rows of docs/reference/limits.md and the constants that they are about.
var limitRows = []struct {
	row, dir string
	names    []string
	bytes    bool
}{
	{"a call, unless its tool says otherwise", "libs/bus", []string{"DefaultTimeout"}, false},
	{"taken off the deadline per hop", "libs/bus", []string{"HopShave"}, false},
	{"least time worth starting a call with", "libs/bus", []string{"MinRemaining"}, false},
	{"instances of one service that an edge knows", "libs/bus/registry", []string{"MaxInstances"}, false},
	{"services that an edge knows", "libs/bus/registry", []string{"MaxServices"}, false},
	{"catalogues of services that an edge knows", "libs/bus/registry", []string{"MaxCatalogues"}, true},
	{"a clock counts as off", "libs/bus/registry", []string{"MaxClockOffset"}, false},
	{"first sign of life, then each", "libs/bus", []string{"FirstAlive", "AliveEvery"}, false},
	{"silence after which a peer counts as lost", "libs/bus", []string{"MaxSilence"}, false},
	{"calls in flight get, when a process is told to stop", "libs/lifecycle", []string{"DrainTimeout"}, false},
	{"a run of a task, unless its tool says otherwise", "libs/bus/task", []string{"Timeout"}, false},
	{"an instance beats for its task", "libs/bus/task", []string{"silence"}, false},
	{"clients are asked to look at a task every", "libs/bus/task", []string{"Poll"}, false},
	{"calls in flight of an edge", "services/edge/gateway", []string{"DefaultInFlight"}, false},
	{"a result", "libs/bus/internal/wire", []string{"MaxResult"}, true},
	{"results that an edge holds", "services/edge/budget", []string{"DefaultLimit", "small"}, true},
	{"arguments of calls in flight", "services/edge/budget", []string{"brief"}, true},
	{"definitions of tools kept for one service", "services/edge/catalogue", []string{"MaxSeen"}, false},
	{"definitions of tools kept for one service", "services/edge/catalogue", []string{"MaxSeenBytes"}, true},
	{"definitions of tools kept for one service", "services/edge/definition", []string{"MaxText"}, true},
	{"an edge tells of a change", "services/edge/catalogue", []string{"noteAgain", "notesAtOnce"}, false},
	{"resource templates, and prefixes of URIs", "services/edge/catalogue", []string{"maxPatterns"}, false},
	{"the caller's rights that go with a call", "services/edge/gateway", []string{"maxDelegation"}, false},
	{"the caller's rights that go with a call", "services/edge/store", []string{"KeyLife"}, false},
	{"how far the clocks of two edges may differ", "services/edge/store", []string{"ClockSlack"}, false},
	{"tools that call tools", "services/edge/gateway", []string{"maxDepth"}, false},
	{"an audit event", "services/edge/audit", []string{"maxArguments", "maxName"}, true},
	{"a call that is held for a person", "services/edge/gateway", []string{"maxHeldArguments", "maxShown"}, true},
	{"a URI that a client names", "services/edge/catalogue", []string{"MaxURI"}, true},
	{"tasks of one payer through an edge", "services/edge/gateway", []string{"maxTasksOfAccount"}, false},
	{"tasks of one payer through an edge", "services/edge/gateway", []string{"maxTaskBytes"}, true},
	{"answers that one payer may come back for", "libs/bus/edges", []string{"StreamTTL"}, false},
	{"idempotency keys of one payer", "libs/bus/storage", []string{"OutcomeTTL"}, false},
}

// TestLimitsAreThoseOfTheCode holds the page of limits to the constants: a row says what
// its constant says, and each constant that the page names is one that is looked at.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	lines, looked := strings.Split(string(page), "\n"), map[string]bool{}
	for _, l := range limitRows {
		values := constants(t, l.dir)
		rows := []string{}
		for _, line := range lines {
			if strings.HasPrefix(line, "| "+l.row) {
				rows = append(rows, line)
			}
		}
		if len(rows) != 1 {
			t.Errorf("the page has %d rows that begin with %q", len(rows), l.row)
			continue
		}
		for _, name := range l.names {
			looked[filepath.Base(l.dir)+"."+name] = true
			value, ok := values[name]
			if !ok {
				t.Errorf("%s has no constant %s that can be read", l.dir, name)
				continue
			}
			if want := regexp.MustCompile(`(^|[^0-9,])` + regexp.QuoteMeta(inWords(value, l.bytes)) + `($|[^0-9])`); !want.MatchString(rows[0]) {
				t.Errorf("%s.%s is %s, and the page says\n%s", l.dir, name, inWords(value, l.bytes), rows[0])
			}
		}
	}
	for _, name := range regexp.MustCompile("`([a-z]+\\.[A-Z][A-Za-z]+)`").FindAllStringSubmatch(section(string(page), "## Timing"), -1) {
		if !looked[name[1]] {
			t.Errorf("the page names %s, which nobody compares with it", name[1])
		}
	}
}

// section is what a page has under a heading.
func section(page, heading string) string {
	_, after, _ := strings.Cut(page, heading+"\n")
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// value is a constant, a time or a number.
type value struct {
	n    int64
	time bool
}

// inWords is a constant as the page writes it.
func inWords(v value, bytes bool) string {
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
	case bytes && v.n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", v.n>>20)
	case bytes:
		return fmt.Sprintf("%d KiB", v.n>>10)
	}
	s := strconv.FormatInt(v.n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// constants are those of a package that are made of numbers and times.
func constants(t *testing.T, dir string) map[string]value {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	all := map[string]value{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			for i := 0; ok && i < len(spec.Values); i++ {
				if v, ok := valueOf(spec.Values[i]); ok {
					all[spec.Names[i].Name] = v
				}
			}
			return true
		})
	}
	return all
}

var units = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// valueOf computes an expression of numbers and units of time.
func valueOf(e ast.Expr) (value, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return value{n: n}, err == nil && e.Kind == token.INT
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		unit := units[e.Sel.Name]
		return value{int64(unit), true}, ok && of.Name == "time" && unit > 0
	case *ast.BinaryExpr:
		x, okX := valueOf(e.X)
		y, okY := valueOf(e.Y)
		v := value{time: x.time || y.time}
		switch e.Op {
		case token.MUL:
			v.n = x.n * y.n
		case token.SHL:
			v.n = x.n << y.n
		default:
			return v, false
		}
		return v, okX && okY
	}
	return value{}, false
}
