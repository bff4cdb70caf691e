package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
		"roots of a text":       {service.Roots("q"), `{"roots":"x"}`, "q is not a valid answer"},
		"url, no such action":   {service.ElicitURL("q", "?", "https://example.com", "1"), `{"action":"maybe"}`, "q is not a valid answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := quiet(t, "asker")
			askingTool(s, "ask", func(call *service.Call) (string, error) {
				_, err := call.Ask(c.question)
				return "asked", err
			})
			client := run(t, s)
			_, inCall := client.round("ask", everyCapability, `{"q":`+c.answer+`}`, nil)
			frame, err := client.round("ask", everyCapability, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			var asked map[string]jsontext.Value
			if err := json.Unmarshal(frame.GetInputRequired().GetInputRequests(), &asked); err != nil {
				t.Fatal(err)
			}
			atEdge := service.CheckAnswer("q", asked["q"], []byte(c.answer))
			for where, err := range map[string]error{"in the call": inCall, "at the edge": atEdge} {
				switch {
				case c.says == "" && err != nil:
					t.Errorf("%s: refused: %v", where, err)
				case c.says != "" && (!fault.Is(err, fault.InvalidParams) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("%s: got %v, want %q", where, err, c.says)
				}
			}
		})
	}
}

// FuzzCheckAnswer checks answers of clients against questions of services.
func FuzzCheckAnswer(f *testing.F) {
	const form = `{"method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}`
	f.Add([]byte(form), []byte(`{"action":"accept","content":{"name":"Ada"}}`))
	f.Add([]byte(`{"method":"roots/list"}`), []byte(`{"roots":[]}`))
	f.Add([]byte(`{"method":"sampling/createMessage","params":{"requestedSchema":7}}`), []byte(`[]`))
	f.Add([]byte(`{"method":"elicitation/create","params":null}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		var f *fault.Error
		if err := service.CheckAnswer("q", question, answer); err != nil && !errors.As(err, &f) {
			t.Errorf("not one for clients: %v", err)
		}
		if err := service.CheckAnswer("q", []byte(form), answer); err == nil {
			var a struct {
				Action string `json:"action"`
			}
			if json.Unmarshal(answer, &a) != nil || a.Action != "accept" && a.Action != "decline" && a.Action != "cancel" {
				t.Errorf("accepted %q", answer)
			}
		}
	})
}
