package starter_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/prompt/internal/starter"
	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

// Every prompt, in every language, with only the required arguments and with all arguments.
func TestPrompts(t *testing.T) {
	t.Parallel()
	all, err := starter.Prompts()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 8 {
		t.Errorf("%d prompts", len(all))
	}
	for _, d := range all {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			c, err := template.Compile(*d)
			if err != nil {
				t.Fatal(err)
			}
			if d.Title == "" || d.Description == "" {
				t.Error("it has no title or description")
			}
			least, most := map[string]string{}, map[string]string{}
			for _, a := range d.Arguments {
				if a.Description == "" {
					t.Errorf("argument %s has no description", a.Name)
				}
				v := "<" + a.Name + ">"
				switch a.Type {
				case template.Enum:
					v = a.Values[0]
				case template.Boolean:
					v = "true"
				case template.Integer:
					v = "42"
				}
				if most[a.Name] = v; a.Required {
					least[a.Name] = v
				}
			}
			languages := []string{"en"}
			for tag := range d.Variants {
				languages = append(languages, tag)
			}
			for _, language := range languages {
				for what, given := range map[string]map[string]string{"least": least, "most": most} {
					if len(d.Variants) > 0 {
						given["lang"] = language
					}
					messages, err := c.Render(given)
					if err != nil {
						t.Fatalf("%s, %s: %v", language, what, err)
					}
					text := textOf(t, messages)
					for name, v := range given {
						if a := argument(d, name); a != nil && strings.HasPrefix(v, "<") && !strings.Contains(text, v) {
							t.Errorf("%s, %s: %s does not show", language, what, name)
						}
					}
					for _, wrong := range []string{"{{", "}}", "\n\n\n", " \n", "  "} {
						if strings.Contains(text, wrong) {
							t.Errorf("%s, %s: %q in %s", language, what, wrong, text)
						}
					}
					if script := map[string]*unicode.RangeTable{"ru": unicode.Cyrillic, "zh": unicode.Han}[language]; script != nil && !strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(script, r) }) {
						t.Errorf("%s is not in its script", language)
					}
				}
			}
		})
	}
}

func textOf(t *testing.T, messages []mcp.PromptMessage) string {
	t.Helper()
	raw, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	return all[0].Content.Text
}

func argument(d *template.Definition, name string) *template.Argument {
	for i := range d.Arguments {
		if d.Arguments[i].Name == name {
			return &d.Arguments[i]
		}
	}
	return nil
}

// The founding documents show code_review as a client lists it and calls it.
func TestCodeReview(t *testing.T) {
	t.Parallel()
	all, err := starter.Prompts()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Name != "code_review" {
			continue
		}
		c, err := template.Compile(*d)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Prompt()
		first := p.Arguments[0]
		if p.Title != "Request Code Review" || p.Description != "Analyze code quality" || first.Name != "code" || first.Description != "The code to review" || !first.Required {
			t.Errorf("%+v", p)
		}
		code := "def factorial(n):\n    if n <= 1:\n        return 1\n    return n * factorial(n-1)"
		messages, err := c.Render(map[string]string{"language": "python", "code": code})
		if err != nil || len(messages) != 1 {
			t.Fatal(messages, err)
		}
		if text := textOf(t, messages); !strings.Contains(text, "\n```python\n"+code+"\n```\n") {
			t.Error(text)
		}
		return
	}
	t.Error("there is none")
}
