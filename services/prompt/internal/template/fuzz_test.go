package template_test

import (
	"testing"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

// FuzzTemplate compiles any text, and renders it with any argument if it compiles: it never panics,
// stays within the limits, and makes at most one message.
func FuzzTemplate(f *testing.F) {
	f.Add("a {{s}} {{#if s}}x{{else if b}}y{{else}}z{{/if}}\n{{#each l}}\n{{this}}{{@number}}\n{{/each}}", "v")
	f.Add(`{{fenced s e}}{{"{{"}}{{! c }}{{#if e == "red"}}{{/if}}`, "```")
	f.Add("{{#each l}}{{#each l}}{{l}}{{/each}}{{/each}}", "a,b\nc")
	f.Fuzz(func(t *testing.T, text, given string) {
		if !utf8.ValidString(text) || !utf8.ValidString(given) {
			return // JSON has neither
		}
		c, err := template.Compile(of(text, typed...))
		if err != nil {
			return
		}
		messages, err := c.Render(arguments{"s": given, "l": given})
		if err != nil {
			if !fault.Is(err, fault.InvalidParams) {
				t.Errorf("%v", err)
			}
			return
		}
		if len(messages) > 1 {
			t.Errorf("%d messages", len(messages))
		}
		for _, m := range show(t, messages) {
			if m.Role != "user" || len(m.Content.Text) > template.MaxOutput {
				t.Errorf("%s %d", m.Role, len(m.Content.Text))
			}
		}
	})
}

// FuzzFile reads any file. A valid definition makes the same template again from its stored form.
func FuzzFile(f *testing.F) {
	f.Add([]byte("name: p\narguments:\n  - {name: s, type: enum, values: [a]}\nmessages:\n  - role: user\n    content:\n      - type: text\n        text: |\n          {{s}}\n"))
	f.Add([]byte("name: p\nmessages: [{role: user, content: [{type: image, mimeType: image/png, data: iVBORw0KGgo=}]}]\nvariants: {pl: {messages: []}}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := template.FromYAML(file)
		if err != nil {
			return
		}
		c, err := template.Compile(*d)
		if err != nil {
			return
		}
		kept, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := template.FromJSON(kept)
		if err != nil {
			t.Fatalf("%v\n%s", err, kept)
		}
		if _, err := template.Compile(*again); err != nil {
			t.Fatalf("%v\n%s", err, kept)
		}
		if _, err := c.Render(nil); err != nil && !fault.Is(err, fault.InvalidParams) {
			t.Error(err)
		}
	})
}
