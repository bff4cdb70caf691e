package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// wayLine names files of one package and a function in each.
	wayLine = regexp.MustCompile(`(?m)^.{10}((?:libs|services)/\S+) +(\w+\.go \w+(?:, \w+\.go \w+)*)`)
	wayStep = regexp.MustCompile(`(\w+\.go) (\w+)`)
	quoted  = regexp.MustCompile("`([a-z]+)`")
)

// docs/explanation/architecture.md is how a newcomer finds the way.
func TestArchitecture(t *testing.T) {
	top := root(t)
	data, err := os.ReadFile(filepath.Join(top, "docs/explanation/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)

	t.Run("the way of a call names files and functions that are there", func(t *testing.T) {
		for _, line := range wayLine.FindAllStringSubmatch(section(t, page, "The way of a call"), -1) {
			for _, step := range wayStep.FindAllStringSubmatch(line[2], -1) {
				path := line[1] + "/" + step[1]
				code, err := os.ReadFile(filepath.Join(top, path))
				if err != nil {
					t.Errorf("the way of a call names %s: %v", path, err)
					continue
				}
				if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + step[2] + `[(\[]`).Match(code) {
					t.Errorf("the way of a call names %s in %s, which declares no such function", step[2], path)
				}
			}
		}
	})

	t.Run("the rooms name every package of the edge", func(t *testing.T) {
		const edge = "services/edge/"
		named := map[string]bool{}
		rows := false
		for line := range strings.Lines(section(t, page, "Rooms")) {
			// The rows of the edge are the first and those that go on with it.
			rows = strings.HasPrefix(line, "| `services/edge`") || rows && strings.HasPrefix(line, "| … ")
			if rows {
				for _, m := range quoted.FindAllStringSubmatch(line, -1) {
					named[m[1]] = true
				}
			}
		}
		for _, s := range shipped(sources(t)) {
			rest, ok := strings.CutPrefix(s.dir, edge)
			if !ok {
				continue
			}
			for _, name := range strings.Split(rest, "/")[:min(2, strings.Count(rest, "/")+1)] {
				if strings.HasPrefix(rest, "cmd/") || strings.HasPrefix(rest, "internal/") {
					continue
				}
				if !named[name] {
					t.Errorf("docs/explanation/architecture.md does not name %s in Rooms", s.dir)
					named[name] = true // once
				}
			}
		}
	})
}

// section is the text of a page under a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/explanation/architecture.md has no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}
