package report

import (
	"regexp"
	"strings"
)

var (
	jestFile  = regexp.MustCompile(`^(PASS|FAIL) (?:\S+ )?(\S+\.(?:[cm]?[jt]sx?))(?: \(.*\))?$`)
	jestTest  = regexp.MustCompile(`^\s{1,4}● (.+)$`)
	jestPlace = regexp.MustCompile(`^\s+at .*?\(?([^\s()]+\.(?:[cm]?[jt]sx?)):(\d+):\d+\)?$`)
	jestCount = regexp.MustCompile(`^Tests:\s+(.*\d+ total)$`)
	jestPart  = regexp.MustCompile(`(\d+) (failed|passed|skipped|todo)`)
)

// jest reads the output of jest.
type jest struct {
	out     Report
	seen    bool
	counted bool
	// file is the current test file; current the test.
	file    string
	current *Failure
	known   map[string]bool
	passed  int
	failed  int
	skipped int
}

func (j *jest) line(text string) {
	if m := jestFile.FindStringSubmatch(text); m != nil {
		j.close()
		j.seen, j.file = true, m[2]
		return
	}
	if m := jestCount.FindStringSubmatch(text); m != nil {
		j.close()
		j.counted = true
		for _, c := range jestPart.FindAllStringSubmatch(m[1], 10) {
			switch c[2] {
			case "passed":
				j.passed = number(c[1])
			case "failed":
				j.failed = number(c[1])
			default:
				j.skipped += number(c[1])
			}
		}
		return
	}
	if m := jestTest.FindStringSubmatch(text); m != nil && j.seen {
		j.close()
		j.current = &Failure{Name: m[1]}
		return
	}
	if strings.HasPrefix(text, "Test Suites: ") || strings.HasPrefix(text, "Summary of all failing tests") {
		j.close()
		return
	}
	if j.current == nil {
		return
	}
	if file, line := place(jestPlace, text); file != "" && j.current.File == "" && !strings.Contains(file, "node_modules/") {
		j.current.File, j.current.Line = file, line
	}
	j.current.Message = grow(j.current.Message, text)
}

// close adds a test once: the summary of a long run repeats it.
func (j *jest) close() {
	f := j.current
	if j.current = nil; f == nil {
		return
	}
	if key := j.file + "\x00" + f.Name; !j.known[key] && len(j.known) < maxOpen {
		if j.known == nil {
			j.known = map[string]bool{}
		}
		j.known[key] = true
		if f.File == "" {
			f.File = j.file
		}
		j.out.add(*f)
	}
}

func (j *jest) report() *Report {
	j.close()
	if !j.seen || !j.counted && len(j.out.Failures) == 0 {
		return nil
	}
	r := j.out
	r.Format, r.Passed, r.Skipped, r.Failed = "jest", j.passed, j.skipped, max(j.failed, r.Failed)
	return &r
}
