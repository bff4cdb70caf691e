package seeds

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quotedTest = regexp.MustCompile("`(?:([a-z/0-9]+) )?(Test\\w+)(/[^`]+)?`")
	decision   = regexp.MustCompile(`\[ADR \d{4}\]\(\.\./adr/[\w-]+\.md\)`)
)

// ownRows are the rows of this package's tests, as docs/evidence/seeds.md names them.
func ownRows() (names []string) {
	for _, r := range envelopes {
		names = append(names, "TestSeed000/"+r.name)
	}
	for _, r := range seed001 {
		names = append(names, "TestSeed001/"+r.name)
	}
	for _, r := range seed001GraphQL {
		names = append(names, "TestSeed001/GraphQL/"+r.name)
	}
	for _, r := range seed001Socket {
		names = append(names, "TestSeed001/WebSocket/"+r.name)
	}
	for test, rows := range map[string][]row{"TestSeed002/": seed002, "TestSeed003/": seed003, "TestSeed004/": seed004} {
		for _, r := range rows {
			names = append(names, test+r.name)
		}
	}
	return append(names, "TestSeed000/standard tools with their metadata")
}

// TestPage checks docs/evidence/seeds.md: each requirement has a test that exists, or a decision
// why it has no test, and each row of this package belongs to a requirement.
func TestPage(t *testing.T) {
	t.Parallel()
	root := "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/evidence/seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	own, named := ownRows(), map[string]bool{}
	sources := map[string]string{}
	source := func(dir string) string {
		if sources[dir] == "" {
			files, _ := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] += string(b)
			}
		}
		return sources[dir]
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| asked for") || len(cells) < 3 {
			continue
		}
		rows++
		last := cells[len(cells)-1]
		tests := quotedTest.FindAllStringSubmatch(last, -1)
		if len(tests) == 0 && !decision.MatchString(last) {
			t.Errorf("neither a test nor a decision: %s", line)
		}
		for _, m := range tests {
			dir, name, sub := m[1], m[2], m[3]
			if dir == "" {
				dir = "test/seeds"
			}
			if !strings.Contains(source(dir), "func "+name+"(") {
				t.Errorf("there is no %s in %s", name, dir)
			}
			if sub != "" {
				if !slices.Contains(own, name+sub) {
					t.Errorf("there is no row %s", name+sub)
				}
				named[name+sub] = true
			}
		}
	}
	if rows < 60 {
		t.Errorf("the page has %d rows", rows)
	}
	for _, name := range own {
		if !named[name] {
			t.Errorf("docs/evidence/seeds.md has no line for %s", name)
		}
	}
}
