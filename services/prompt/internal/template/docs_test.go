package template_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

// The examples in docs/reference/services/prompt.md are correct.
func TestDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/reference/services/prompt.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)````yaml\n(.*?)````.*?```json\n(.*?)```.*?```text\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no template, arguments and result")
	}
	d, err := template.FromYAML(m[1])
	if err != nil {
		t.Fatal(err)
	}
	var given arguments
	if err := json.Unmarshal(m[2], &given); err != nil {
		t.Fatal(err)
	}
	c := compile(t, *d)
	if got := render(t, c, given); got != string(m[3]) {
		t.Errorf("got %q, want %q", got, m[3])
	}
	given["lang"] = "pl"
	if got, want := render(t, c, given), "Napisz informacje o wydaniu na podstawie zmian: edge: refuse empty names, bus: faster drain"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
