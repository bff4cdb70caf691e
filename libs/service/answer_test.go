package service_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Answers are checked against what was asked before the handler sees them.
func TestAnswersMustFitTheQuestion(t *testing.T) {
	t.Parallel()
	form := map[string]any{"type": "object", "required": []string{"name"}, "properties": map[string]any{"name": map[string]any{"type": "string"}}}
	for name, c := range map[string]struct {
		question service.Question
		answer   string
		says     string // "" for an answer that fits
	}{
		"form":                  {service.Elicit("q", "?", form), `{"action":"accept","content":{"name":"Ada"}}`, ""},
		"form declined":         {service.Elicit("q", "?", form), `{"action":"decline"}`, ""},
		"form without content":  {service.Elicit("q", "?", form), `{"action":"accept"}`, "/name: is required"},
		"form of another type":  {service.Elicit("q", "?", form), `{"action":"accept","content":{"name":7}}`, "/name"},
		"no such action":        {service.Elicit("q", "?", form), `{"action":"maybe"}`, "q is not a valid answer"},
		"url":                   {service.ElicitURL("q", "?", "https://example.com", "1"), `{"action":"accept"}`, ""},
		"sampling":              {service.Sample("q", service.Sampling{MaxTokens: 1}), `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, ""},
		"sampling without text": {service.Sample("q", service.Sampling{MaxTokens: 1}), `{"nonsense":1}`, "q is not a valid answer"},
		"roots":                 {service.Roots("q"), `{"roots":[]}`, ""},
		"roots without roots":   {service.Roots("q"), `{"nonsense":1}`, "q is not a valid answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quiet(t, "asker")
			askingTool(s, "ask", func(call *service.Call) (string, error) {
				_, err := call.Ask(c.question)
				return "asked", err
			})
			_, err := run(t, s).round("ask", everyCapability, `{"q":`+c.answer+`}`, nil)
			switch {
			case c.says == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.says != "" && (!fault.Is(err, fault.InvalidParams) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}
