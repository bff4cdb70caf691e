package report

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

var (
	goPlace   = regexp.MustCompile(`(?m)^\s*([^\s:]+\.go):(\d+)(?::\d+)?: `)
	goStack   = regexp.MustCompile(`(?m)^\t(\S+_test\.go):(\d+)(?: \+0x|$)`)
	goVerdict = regexp.MustCompile(`^\s*--- (FAIL|PASS|SKIP): (\S+) \(`)
	goOpens   = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+(\S+)`)
	goPackage = regexp.MustCompile(`^(ok  |FAIL|---|\?   )\t(\S+)(?:\s|$)`)
	goBuild   = regexp.MustCompile(`^# (\S+)(?: \[.*\])?$`)
)

// goResults collects the output of go test in either format.
type goResults struct {
	Report
	seen bool
	// said is the output of each test so far, by package and name.
	said map[string]string
	// failedIn holds the packages with an added failure.
	failedIn map[string]bool
}

func newGoResults() goResults {
	return goResults{said: map[string]string{}, failedIn: map[string]bool{}}
}

func (g *goResults) say(key, text string) {
	if _, open := g.said[key]; open || len(g.said) < maxOpen {
		g.said[key] = grow(g.said[key], strings.TrimSuffix(text, "\n"))
	}
}

func (g *goResults) fail(pkg, name, message string) {
	f := Failure{Name: strings.TrimPrefix(pkg+"."+name, "."), Message: message}
	if name == "" {
		f.Name = pkg
	}
	if f.File, f.Line = place(goPlace, message); f.File == "" {
		f.File, f.Line = place(goStack, message)
	}
	g.add(f)
	if len(g.failedIn) < maxOpen {
		g.failedIn[pkg] = true
	}
}

func (g *goResults) report() *Report {
	if !g.seen {
		return nil
	}
	g.Format = "go"
	// A test fails if a subtest fails; only the subtest says why.
	out := g.Report
	out.Failures = slices.DeleteFunc(slices.Clone(g.Failures), func(f Failure) bool {
		return f.File == "" && slices.ContainsFunc(g.Failures, func(sub Failure) bool { return strings.HasPrefix(sub.Name, f.Name+"/") })
	})
	return &out
}

// goJSON reads go test -json.
type goJSON struct{ goResults }

func newGoJSON() *goJSON { return &goJSON{newGoResults()} }

func (g *goJSON) line(text string) {
	if !strings.HasPrefix(text, "{") {
		return
	}
	var e struct{ Action, Package, ImportPath, Test, Output string }
	if json.Unmarshal([]byte(text), &e) != nil || e.Action == "" || e.Package == "" && e.ImportPath == "" {
		return
	}
	g.seen = true
	e.Package, e.ImportPath, e.Test = clip(e.Package, maxName), clip(e.ImportPath, maxName), clip(e.Test, maxName) // they stay in memory
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		if out := strings.TrimSuffix(e.Output, "\n"); !goOpens.MatchString(out) && !goVerdict.MatchString(out) && out != "FAIL" {
			g.say(key, Plain(out))
		}
	case "build-output":
		g.say(e.ImportPath+"\x00", Plain(e.Output))
	case "build-fail":
		pkg, _, _ := strings.Cut(e.ImportPath, " ") // pkg [pkg.test]
		g.fail(pkg, "", g.said[e.ImportPath+"\x00"])
		delete(g.said, e.ImportPath+"\x00")
	case "pass", "skip", "fail":
		switch {
		case e.Test != "" && e.Action == "pass":
			g.Passed++
		case e.Test != "" && e.Action == "skip":
			g.Skipped++
		case e.Action == "fail" && (e.Test != "" || !g.failedIn[e.Package]):
			g.fail(e.Package, e.Test, g.said[key])
		}
		delete(g.said, key)
	}
}

// goText reads go test, with and without -v.
type goText struct {
	goResults
	// current is the running test, with -v; last the failed test that the next lines describe.
	current string
	last    *Failure
	build   string
	// panics: all lines up to the package's belong to the last test.
	panics bool
	// unnamed lists failures of a package that is not known yet.
	unnamed []int
}

func newGoText() *goText { return &goText{goResults: newGoResults()} }

func (g *goText) line(text string) {
	if m := goOpens.FindStringSubmatch(text); m != nil {
		g.close()
		g.seen, g.current, g.build = true, m[1], ""
		return
	}
	if m := goVerdict.FindStringSubmatch(text); m != nil {
		g.close()
		g.seen, g.build = true, ""
		switch m[1] {
		case "PASS":
			g.Passed++
		case "SKIP":
			g.Skipped++
		default:
			g.last = &Failure{Name: m[2], Message: g.said[m[2]]}
		}
		delete(g.said, m[2])
		return
	}
	if m := goPackage.FindStringSubmatch(text); m != nil {
		g.close()
		g.seen = true
		for _, i := range g.unnamed {
			g.Failures[i].Name = clip(m[2]+"."+g.Failures[i].Name, maxName)
		}
		if m[1] == "FAIL" && !g.failedIn[""] && !g.failedIn[m[2]] {
			g.fail(m[2], "", grow(g.said[g.current], text))
		}
		clear(g.said)
		delete(g.failedIn, "")
		g.current, g.build, g.panics, g.unnamed = "", "", false, nil
		return
	}
	if g.panics {
		g.last.Message = grow(g.last.Message, text)
		return
	}
	if m := goBuild.FindStringSubmatch(text); m != nil {
		g.close()
		g.build = m[1]
		return
	}
	switch {
	case g.build != "" && goPlace.MatchString(text):
		g.seen = true
		file, line := place(goPlace, text)
		g.add(Failure{Name: g.build, File: file, Line: line, Message: text})
		g.failedIn[g.build] = true
	case strings.HasPrefix(text, "panic: "):
		if g.last == nil {
			g.last = &Failure{Name: g.current}
		}
		g.seen, g.panics = true, true
		g.last.Message = grow(g.last.Message, text)
	case text == "FAIL", text == "PASS":
		g.close()
	case g.last != nil && (strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t")):
		g.last.Message = grow(g.last.Message, text)
	case g.current != "" || len(g.said) > 0:
		g.say(g.current, text)
	}
}

// close adds the failed test after its last line.
func (g *goText) close() {
	if f := g.last; f != nil {
		g.last, g.panics = nil, false
		if g.fail("", f.Name, f.Message); g.Failed == len(g.Failures) {
			g.unnamed = append(g.unnamed, g.Failed-1)
		}
	}
}

func (g *goText) report() *Report {
	g.close()
	return g.goResults.report()
}
