package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/busbar-mcp/busbar/test/bench/budget"
)

// made is a profile of the processor with one sample for each stack, the innermost
// function first, of ten microseconds; or of allocations, of two objects in 100 bytes.
func made(kinds []string, stacks ...[]string) *profile.Profile {
	p := &profile.Profile{}
	for _, kind := range kinds {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: kind})
	}
	for _, stack := range stacks {
		s := &profile.Sample{Value: []int64{2, 100}}
		if len(kinds) == 1 {
			s.Value = []int64{10_000}
		}
		for _, f := range stack {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: f}}}})
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestBudget(t *testing.T) {
	t.Parallel()
	stages := []budget.Stage{{Name: "read", Functions: []string{"net/http.", "main.read"}}, {Name: "write", Functions: []string{"net/http.write"}}, {Name: "ours", Functions: []string{"libs/bus."}}}
	const bus = "github.com/busbar-mcp/busbar/libs/bus.(*Conn).send"
	cpu := made([]string{"cpu"},
		[]string{"runtime.memmove", "net/http.serve"},
		[]string{"internal/runtime/syscall/linux.Syscall6", "net/http.writeHeader", "net/http.serve"},
		[]string{"runtime.nextFree", "runtime.mallocgc", bus, "net/http.serve"},
		[]string{"nobody.knows"})
	heap := []string{"alloc_objects", "alloc_space"}
	before := made(heap, []string{bus}, []string{"main.readBody"})
	after := made(heap, []string{bus}, []string{"main.readBody"}, []string{"main.readBody"}, []string{"main.readBody"})
	got, err := budget.Of(stages, cpu, 10, before, after, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := budget.Budget{"read": {CPU: 1, Objects: 2, Bytes: 100}, "write": {CPU: 1, Kernel: 1}, "ours": {CPU: 1, Heap: 1}, budget.Rest: {CPU: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if all := got.All(); all != (budget.Spent{CPU: 4, Kernel: 1, Heap: 1, Objects: 2, Bytes: 100}) {
		t.Errorf("all is %+v", all)
	}
}

// The functions that a stage names still exist: the test looks for ours in the source. For
// functions of other modules the run itself finds out.
func TestStagesNameFunctions(t *testing.T) {
	t.Parallel()
	known := map[string][]string{}
	for _, s := range budget.Stages {
		for _, begin := range s.Functions {
			slash := strings.LastIndex(begin, "/") + 1
			dot := slash + strings.Index(begin[slash:], ".")
			dir := filepath.Join("..", "..", begin[:dot])
			if begin[:dot] == "main" {
				dir = "peers"
			}
			if _, err := os.Stat(dir); err != nil {
				continue // of others
			}
			if known[dir] == nil {
				known[dir] = declared(t, dir)
			}
			name, _, _ := strings.Cut(strings.TrimSuffix(begin[dot+1:], "."), ".func")
			if !slices.ContainsFunc(known[dir], func(f string) bool { return strings.HasPrefix(f, name) }) {
				t.Errorf("stage %q: there is no function %s in %s", s.Name, name, dir)
			}
		}
	}
	if len(known) < 10 {
		t.Errorf("only %d packages were looked at", len(known))
	}
}

// declared are the functions and methods of a package, as a profile names them.
func declared(t *testing.T, dir string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				text := d.Name.Name
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if p, ok := of.(*ast.StarExpr); ok {
						text = fmt.Sprintf("(*%s).%s", p.X, text)
					} else {
						text = fmt.Sprintf("%s.%s", of, text)
					}
				}
				all = append(all, text)
			}
		}
	}
	return all
}

// A stage without a function in any program is reported.
func TestStagesOfNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "main")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stages := []budget.Stage{{Name: "here", Functions: []string{"main.main"}}, {Name: "gone", Functions: []string{"libs/bus.gone"}}}
	if err := budget.Check(stages, program); err == nil || err.Error() != `stage "gone": no program has a function libs/bus.gone` {
		t.Error(err)
	}
}

// The page says of each stage why it is there, and of no other.
func TestPageKnowsStages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "evidence", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## The budget of a call\n")
	part, _, _ = strings.Cut(part, "\n## ")
	var said []string
	for line := range strings.Lines(part) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			said = append(said, strings.TrimSpace(cells[1]))
		}
	}
	want := slices.Concat([]string{"stage", "---"}, stages()[:len(budget.Stages)])
	if !slices.Equal(said, want) {
		t.Errorf("docs/evidence/performance.md speaks of\n%q\nand the stages are\n%q", said, want)
	}
}
