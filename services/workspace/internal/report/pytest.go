package report

import (
	"regexp"
	"strings"
)

var (
	pytestSummary = regexp.MustCompile(`^(FAILED|ERROR) (\S+?\.py(?:::\S.*?)?)(?: - (.*))?$`)
	pytestHeader  = regexp.MustCompile(`^_{3,} (?:ERROR (?:at setup of|at teardown of|collecting) )?(.+?) _{3,}$`)
	pytestPlace   = regexp.MustCompile(`^([^\s:]+\.py):(\d+): `)
	pytestEnd     = regexp.MustCompile(`^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s`)
	pytestCount   = regexp.MustCompile(`(\d+) ([a-z]+)`)
	pytestBegin   = regexp.MustCompile(`^=+ test session starts =+$`)
)

// pytest reads the output of pytest.
type pytest struct {
	found, seen bool
	out         Report
	// details are the long descriptions of failed tests, by the name in their headers.
	details map[string]*Failure
	current *Failure
	// The counts come from the last line.
	passed, failed, skipped int
	counted                 bool
}

func (p *pytest) line(text string) {
	if pytestBegin.MatchString(text) {
		p.seen = true
		return
	}
	if m := pytestHeader.FindStringSubmatch(text); m != nil {
		p.current = nil
		if len(p.details) < maxOpen {
			if p.details == nil {
				p.details = map[string]*Failure{}
			}
			p.current = &Failure{}
			p.details[m[1]] = p.current
		}
		return
	}
	if m := pytestSummary.FindStringSubmatch(text); m != nil {
		p.current, p.found = nil, true
		f := Failure{Name: m[2], Message: m[3]}
		f.File, _, _ = strings.Cut(m[2], "::")
		if d := p.detail(m[2]); d != nil {
			if d.File != "" {
				f.File, f.Line = d.File, d.Line
			}
			if d.Message != "" {
				f.Message = d.Message
			}
		}
		p.out.add(f)
		return
	}
	if m := pytestEnd.FindStringSubmatch(text); m != nil {
		p.current, p.counted = nil, true
		for _, c := range pytestCount.FindAllStringSubmatch(m[1], 20) {
			switch c[2] {
			case "passed", "xpassed":
				p.passed += number(c[1])
			case "failed", "error", "errors":
				p.failed += number(c[1])
			case "skipped", "xfailed":
				p.skipped += number(c[1])
			}
		}
		return
	}
	if p.current == nil {
		return
	}
	if rest, ok := strings.CutPrefix(text, "E  "); ok {
		p.current.Message = grow(p.current.Message, strings.TrimSpace(rest))
	}
	if file, line := place(pytestPlace, text); file != "" {
		p.current.File, p.current.Line = file, line
	}
}

// detail returns the description of a test. A header names a/b.py::T::test[x] as T.test[x], and an
// unreadable file by its name.
func (p *pytest) detail(name string) *Failure {
	_, inner, ok := strings.Cut(name, "::")
	if !ok {
		return p.details[name]
	}
	return p.details[strings.ReplaceAll(inner, "::", ".")]
}

func (p *pytest) report() *Report {
	if !p.found && !(p.seen && p.counted) {
		return nil
	}
	r := p.out
	r.Format, r.Passed, r.Skipped, r.Failed = "pytest", p.passed, p.skipped, max(p.failed, r.Failed)
	return &r
}
