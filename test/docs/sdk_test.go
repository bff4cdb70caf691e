package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/access"
)

var goBlock = regexp.MustCompile("(?ms)^```(?:go|sql)\n(.*?)^```$")

// TestSDK compares every snippet of docs/guides/service.md with the code of the Examples of
// servicetest and of the services in examples, line for line.
func TestSDK(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/service.md")
	if err != nil {
		t.Fatal(err)
	}
	var run []string
	lines := 0
	for _, pattern := range []string{"../../libs/service/servicetest/example_*_test.go", "../../examples/orders/*.go", "../../libs/database/example_*_test.go", "../../examples/notes/*.go", "../../examples/weather/*.go", "../../examples/notes/migrations/both/*.sql"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			run = append(run, string(text))
			if strings.Contains(f, "orders") {
				lines += strings.Count(string(text), "\n")
			}
		}
	}
	if lines > 250 {
		t.Errorf("examples/orders has %d lines, and is said to have at most 250", lines)
	}
	snippets := goBlock.FindAllStringSubmatch(string(page), -1)
	if len(snippets) < 10 {
		t.Fatalf("the page has %d snippets", len(snippets))
	}
	for _, policy := range only(blocks(t, "docs/guides/service.md"), "yaml") {
		if _, err := access.Parse([]byte(policy)); err != nil {
			t.Errorf("%s\n%v", policy, err)
		}
	}
	all := strings.Join(run, "\n")
	for _, b := range snippets {
		if !strings.Contains(all, b[1]) {
			t.Errorf("this is in no Example:\n%s", b[1])
		}
	}
}
