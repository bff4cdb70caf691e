package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

const grants = `
services:
  text: {offers: [tools/analyzeText, "tools/*Text", "resources/skill://text/*"]}
  github: {offers: ["tools/github_*", tools/search_repos], cache_for_all: true, timeout: 5m}
  forks: {offers: ["tools/github_fork_*"]}
  notes: {offers: ["resources/note://*", "prompts/*", sampling/createMessage]}
  team: {offers: ["resources/note://team/*", "tools/analyzeText*", prompts/greet]}
  batch: {offers: [tools/call_many], calls: ["tools/*"], timeout: 90s}
  planner: {offers: [tools/plan], calls: [tools/analyzeText]}
  "*": {offers: ["tools/x_*"]}
`

func TestH8Offers(t *testing.T) {
	t.Parallel()
	p := parse(t, grants)
	for _, c := range []struct{ service, name, whose string }{
		{"text", "tools/analyzeText", ""}, {"text", "tools/myText", ""}, {"text", "skills/summing", ""},
		{"github", "tools/github_stars", ""}, {"github", "tools/search_repos", ""},
		// The longest pattern has the name, and has it alone, whether its service is
		// there or not.
		{"forks", "tools/github_fork_all", ""}, {"github", "tools/github_fork_all", "forks"},
		{"team", "tools/analyzeText", "text"}, {"team", "tools/analyzeTexts", ""}, {"text", "tools/analyzeTextOfText", "team"},
		{"notes", "resources/note://a", ""}, {"notes", "resources/note://team/a", "team"}, {"team", "resources/note://team/a", ""},
		{"team", "resources/note://a", "notes"}, {"team", "prompts/greet", ""}, {"notes", "prompts/greet", "team"}, {"notes", "prompts/else", ""},
		// An offer that stands for many names needs a pattern that fits all of them.
		{"notes", "templates/note://{id}", ""}, {"notes", "prefixes/note://", ""}, {"team", "templates/note://{id}", "notes"},
		{"team", "prefixes/note://team/", ""}, {"notes", "prefixes/note:/", "nobody"}, {"notes", "templates/{+uri}", "nobody"},
		{"notes", "tenant-prompts", ""}, {"team", "tenant-prompts", "notes"}, {"notes", "model", ""}, {"text", "model", "notes"},
		// A service without an entry has the rights of *, and one with an entry does not.
		{"new", "tools/x_1", ""}, {"text", "tools/x_1", "*"}, {"new", "tools/analyzeText", "text"}, {"new", "tools/else", "nobody"},
		{"new", "skills/evil", "nobody"}, {"new", "resources/skill://text/summing/SKILL.md", "text"},
	} {
		n, err := catalogue.ParseName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		ok, whose := p.Offers(c.service, n)
		if !ok && whose == "" {
			whose = "nobody"
		}
		if whose != c.whose || ok != (c.whose == "") {
			t.Errorf("%s offers %s: %t, %q; want %q", c.service, c.name, ok, whose, c.whose)
		}
	}
}

// A key without a value, as in a half-written file, does not silently close nothing.
func TestH8GivenWithoutValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"services:\n": "services: {}", "services: null\n": "services: {}", "roles: {}\npin:\n": "strict", "pin: ''\n": "strict", "": "it is empty", "# nothing\n": "it is empty",
	} {
		if _, err := access.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	n := catalogue.Name{Kind: catalogue.ToolName, Name: "any"}
	if ok, _ := parse(t, "services: {}\n").Offers("text", n); ok {
		t.Error("services without entries offer something")
	}
	if ok, _ := parse(t, "roles: {}\n").Offers("text", n); !ok {
		t.Error("without the key services offer nothing")
	}
}

func TestH8Powers(t *testing.T) {
	t.Parallel()
	p := parse(t, grants)
	for service, want := range map[string]catalogue.Powers{
		"text": {}, "new": {}, "github": {CacheShared: true, Timeout: 5 * time.Minute}, "batch": {Calls: true, Timeout: 90 * time.Second}, "planner": {Calls: true},
	} {
		if got := p.Powers(service); got != want {
			t.Errorf("%s has %+v", service, got)
		}
	}
	for _, c := range []struct {
		service, tool string
		may           bool
	}{{"batch", "any", true}, {"planner", "analyzeText", true}, {"planner", "analyzeTexts", false}, {"text", "any", false}, {"new", "any", false}} {
		if p.Calls(c.service, c.tool) != c.may {
			t.Errorf("%s calls %s: %t", c.service, c.tool, !c.may)
		}
	}
	// A file without services lets the first service that comes have a name, and gives no
	// power.
	p = parse(t, "roles: {}")
	if ok, _ := p.Offers("any", catalogue.Name{Kind: catalogue.ToolName, Name: "x"}); !ok || p.Powers("any") != (catalogue.Powers{}) || p.Calls("any", "x") {
		t.Error("a file without services")
	}
	p = parse(t, "services: {}")
	if ok, _ := p.Offers("any", catalogue.Name{Kind: catalogue.ToolName, Name: "x"}); ok {
		t.Error("a file whose services are none lets them offer names")
	}
}

func TestWrongServices(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"services: {gateway: {}}":                     "line 1: ",
		"services: {a b: {}}":                         "line 1: ",
		"services: {a: {offers: [x]}}":                "is not a valid pattern",
		"services: {a: {offers: [tools/x, tools/x]}}": "twice",
		"services: {a: {calls: [prompts/x]}}":         "of no tool",
		"services: {a: {timeout: 25h}}":               "from 1s to 24h",
		"services: {a: {timeout: -1s}}":               "from 1s to 24h",
		"services: {a: {timeout: soon}}":              "such as 90s",
		"services: {a: {tools: [x]}}":                 `unknown key "tools"`,
	} {
		if _, err := access.Parse([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
