package report_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/report"
)

func sample(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func read(parts ...string) *report.Report {
	r := report.NewReader()
	for _, p := range parts {
		_, _ = r.Write([]byte(p))
	}
	return r.Report()
}

// show is a report in lines, with the first line of each message.
func show(r *report.Report) (lines []string) {
	if r == nil {
		return nil
	}
	lines = append(lines, fmt.Sprintf("%s %d/%d/%d", r.Format, r.Passed, r.Failed, r.Skipped))
	for _, f := range r.Failures {
		first, _, _ := strings.Cut(strings.TrimSpace(f.Message), "\n")
		lines = append(lines, fmt.Sprintf("%s %s:%d %s", f.Name, f.File, f.Line, first))
	}
	return lines
}

// Each sample is real output of a runner, and gives the same report in whatever parts it arrives.
func TestFormats(t *testing.T) {
	t.Parallel()
	const panics = "panic: assignment to entry in nil map [recovered, repanicked]"
	for name, want := range map[string][]string{
		"go.txt": {
			"go 0/5/0",
			"example.com/g/a.TestBad a_test.go:4 a_test.go:4: got 1, want 2",
			"example.com/g/a.TestSubs/one a_test.go:5 a_test.go:5: no one",
			"example.com/g/c c/c_test.go:3 c/c_test.go:3:28: undefined: undefined",
			"example.com/g/b.TestPanics /tmp/s5/ci/g/b/b_test.go:3 " + panics,
		},
		"go-v.txt": {
			"go 2/5/1",
			"example.com/g/c c/c_test.go:3 c/c_test.go:3:28: undefined: undefined",
			"example.com/g/a.TestBad a_test.go:4 a_test.go:4: got 1, want 2",
			"example.com/g/a.TestSubs/one a_test.go:5 a_test.go:5: no one",
			"example.com/g/b.TestPanics /tmp/s5/ci/g/b/b_test.go:3 " + panics,
		},
		"go-json.txt": {
			"go 2/5/1",
			"example.com/g/c c/c_test.go:3 # example.com/g/c [example.com/g/c.test]",
			"example.com/g/a.TestBad a_test.go:4 a_test.go:4: got 1, want 2",
			"example.com/g/a.TestSubs/one a_test.go:5 a_test.go:5: no one",
			"example.com/g/b.TestPanics /tmp/s5/ci/g/b/b_test.go:3 " + panics,
		},
		"pytest.txt": {
			"pytest 3/3/1",
			"tests/test_shop.py::test_price tests/test_shop.py:7 AssertionError: assert 4 == 3",
			"tests/test_shop.py::TestCart::test_add[2] tests/test_shop.py:15 KeyError: 2",
			"tests/test_broken.py tests/test_broken.py:1 ModuleNotFoundError: No module named 'nothing_there'",
		},
		"jest.txt": {
			"jest 2/2/1",
			"sum › adds src/sum.test.js:4 expect(received).toBe(expected) // Object.is equality",
			"Test suite failed to run src/broken.test.ts:1 Cannot find module './nothing' from 'src/broken.test.ts'",
		},
		"junit.xml": {
			"junit 1/2/1",
			"shop.Cart.removes src/cart.py:20 expected 1",
			"shop.Cart.breaks :0 boom",
		},
	} {
		text := sample(t, name)
		if got := show(read(text)); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s", name, strings.Join(got, "\n"))
		}
		if got := show(read(strings.Split(text, "")...)); !slices.Equal(got, want) {
			t.Errorf("%s, a character at a time:\n%s", name, strings.Join(got, "\n"))
		}
		coloured := "\x1b[31m" + strings.ReplaceAll(text, "\n", "\x1b[0m\r\n\x1b[1;31m")
		if got := show(read(coloured)); !slices.Equal(got, want) {
			t.Errorf("%s, in colour:\n%s", name, strings.Join(got, "\n"))
		}
	}
}

// Output without a report gives no report, however much of it there is.
func TestNoReport(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "prose": "All is well.\nFAILED to find anything\n# a heading\nmain.go: fine\n", "JSON": `{"Action":"walk"}` + "\n" + `{"a":1}`,
		"long": strings.Repeat("x", 10<<20), "XML": "<html><body>", "broken XML": "<testsuites><testcase></testsuites>",
	} {
		if got := read(text); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Whatever the output, a report stays small.
func TestBounds(t *testing.T) {
	t.Parallel()
	var text, xml strings.Builder
	xml.WriteString("<testsuite>")
	for i := range 1000 {
		fmt.Fprintf(&text, "--- FAIL: Test%d (0.00s)\n    x_test.go:1: %s\n", i, strings.Repeat("long ", 2000))
		fmt.Fprintf(&xml, `<testcase name="%d"><failure>%s</failure></testcase>`, i, strings.Repeat("long ", 200))
	}
	xml.WriteString("</testsuite>")
	parsed, err := report.JUnit([]byte(xml.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*report.Report{read(text.String()), parsed} {
		if r.Failed != 1000 {
			t.Errorf("%d failed", r.Failed)
		}
		bounded(t, r)
	}
}

func bounded(t *testing.T, r *report.Report) {
	t.Helper()
	if r == nil {
		return
	}
	if len(r.Failures) > 100 {
		t.Errorf("%d failures", len(r.Failures))
	}
	for _, f := range r.Failures {
		if len(f.Name) > 600 || len(f.File) > 600 || len(f.Message) > 1100 || f.Line < 0 {
			t.Errorf("a failure of %d, %d and %d bytes", len(f.Name), len(f.File), len(f.Message))
		}
		if strings.ContainsAny(f.Name+f.Message, "\x1b\x00\u202e") {
			t.Errorf("control characters in %+v", f)
		}
	}
}

// Tricks of XML are refused or ignored.
func TestHostileXML(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an entity that grows":   `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`,
		"a file":                 `<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><testsuite><testcase name="x"><failure>&f;</failure></testcase></testsuite>`,
		"deep":                   "<testsuite>" + strings.Repeat("<a>", 100_000),
		"another encoding":       `<?xml version="1.0" encoding="UTF-7"?><testsuite/>`,
		"no suite":               `<html/>`,
		"two of one attribute":   `<testsuite><testcase name="a`,
		"larger than is read":    strings.Repeat(" ", 9<<20),
		"an end without a start": `</testsuite>`,
	} {
		if r, err := report.JUnit([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, r)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func fuzz(f *testing.F, samples ...string) {
	for _, s := range samples {
		f.Add(sample(f, s))
	}
	f.Fuzz(func(t *testing.T, text string) { bounded(t, read(text)) })
}

func FuzzGoText(f *testing.F) { fuzz(f, "go.txt", "go-v.txt") }
func FuzzGoJSON(f *testing.F) { fuzz(f, "go-json.txt") }
func FuzzPytest(f *testing.F) { fuzz(f, "pytest.txt") }
func FuzzJest(f *testing.F)   { fuzz(f, "jest.txt") }

func FuzzJUnit(f *testing.F) {
	f.Add(sample(f, "junit.xml"))
	f.Fuzz(func(t *testing.T, text string) {
		r, err := report.JUnit([]byte(text))
		if (r == nil) == (err == nil) {
			t.Errorf("%+v %v", r, err)
		}
		bounded(t, r)
	})
}
