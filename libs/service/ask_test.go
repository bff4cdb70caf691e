package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

const everyCapability = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

// round makes one round of a call: answers and state come from the previous round.
func (c *client) round(name, caps, answers string, state []byte) (*busv1.Frame, error) {
	c.t.Helper()
	req := tool(name, `{}`)
	req.Client = &busv1.Client{Capabilities: []byte(caps)}
	req.InputResponses, req.RequestState = []byte(answers), state
	return c.do(req, nil)
}

// asks requires that a round ends with these questions, and returns the state of the round.
func (c *client) asks(frame *busv1.Frame, err error, want string) []byte {
	c.t.Helper()
	if err != nil || frame.GetInputRequired() == nil {
		c.t.Fatalf("ended with %v, %v; want questions", frame, err)
	}
	same(c.t, "questions", string(frame.GetInputRequired().InputRequests), want)
	return frame.GetInputRequired().RequestState
}

func askingTool(s *service.Service, name string, f func(call *service.Call) (string, error)) {
	service.AddTool(s, service.Tool{Name: name}, func(_ context.Context, call *service.Call, _ struct{}) (*service.Result, error) {
		text, err := f(call)
		if err != nil {
			return nil, err
		}
		return &service.Result{Content: []mcp.Content{mcp.Text(text)}}, nil
	})
}

func said(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
}

func TestAskInOneRound(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "form", func(call *service.Call) (string, error) {
		a, err := call.Ask(service.Elicit("who", "Your name?", map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}))
		if err != nil {
			return "", err
		}
		var in struct {
			Name string `json:"name"`
		}
		action, err := a.Elicited("who", &in)
		return action + " " + in.Name, err
	})
	askingTool(s, "url", func(call *service.Call) (string, error) {
		a, err := call.Ask(service.ElicitURL("login", "Sign in", "https://example.com/", "e1"))
		if err != nil {
			return "", err
		}
		return a.Elicited("login", nil)
	})
	askingTool(s, "sample", func(call *service.Call) (string, error) {
		a, err := call.Ask(service.Sample("model", service.Sampling{Messages: []mcp.PromptMessage{{Role: "user", Content: mcp.Text("hi")}}, MaxTokens: 7}))
		if err != nil {
			return "", err
		}
		out, err := a.Sampled("model")
		return out.Model + ": " + out.Text(), err
	})
	askingTool(s, "roots", func(call *service.Call) (string, error) {
		a, err := call.Ask(service.Roots("dirs"))
		if err != nil {
			return "", err
		}
		roots, err := a.Roots("dirs")
		var all []string
		for _, r := range roots {
			all = append(all, r.URI+"="+r.Name)
		}
		return strings.Join(all, " "), err
	})
	c := run(t, s)
	for name, x := range map[string]struct{ asks, answers, says string }{
		"form": {`{"who":{"method":"elicitation/create","params":{"message":"Your name?","mode":"form","requestedSchema":{"properties":{"name":{"type":"string"}},"type":"object"}}}}`,
			`{"who":{"action":"accept","content":{"name":"Ada"}}}`, "accept Ada"},
		"url": {`{"login":{"method":"elicitation/create","params":{"elicitationId":"e1","message":"Sign in","mode":"url","url":"https://example.com/"}}}`,
			`{"login":{"action":"accept"}}`, "accept"},
		"sample": {`{"model":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":7}}}`,
			`{"model":{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}}`, "m: hello"},
		"roots": {`{"dirs":{"method":"roots/list","params":{}}}`,
			`{"dirs":{"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b"}]}}`, "file:///a=A file:///b="},
	} {
		frame, err := c.round(name, everyCapability, "", nil)
		state := c.asks(frame, err, x.asks)
		if frame, err = c.round(name, everyCapability, x.answers, state); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, name, string(frame.GetResult().GetJson()), said(x.says))
		// Without answers, or with answers to other questions, it asks again.
		frame, err = c.round(name, everyCapability, `{"other":{"action":"accept"}}`, state)
		c.asks(frame, err, x.asks)
		frame, err = c.round(name, everyCapability, `{"who":null,"login":[],"model":"x","dirs":7}`, state)
		c.asks(frame, err, x.asks)
	}
	for answer, says := range map[string]string{`{"who":{"action":"decline"}}`: "decline ", `{"who":{"action":"cancel"}}`: "cancel ", `{"who":{"action":"accept"}}`: "accept ",
		`{"who":{"action":"decline","content":{"name":"ignored"}}}`: "decline "} {
		frame, err := c.round("form", everyCapability, answer, nil)
		if err != nil {
			t.Errorf("%s: %v", answer, err)
			continue
		}
		same(t, answer, string(frame.GetResult().GetJson()), said(says))
	}
	if _, err := c.round("form", everyCapability, `[]`, nil); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("answers that are no object: %v", err)
	}
	if _, err := c.round("form", everyCapability, "", []byte("garbage")); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("state that is none: %v", err)
	}
}

// A handler may ask again and again; its answers and its state travel with the call, so any
// instance can continue.
func TestAskInSeveralRounds(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	askingTool(s, "interview", func(call *service.Call) (string, error) {
		if call.State() == nil {
			call.SetState([]byte{0, 255})
		} else {
			call.SetState(append(call.State(), 1))
		}
		first, err := call.Ask(service.Elicit("a", "a?", nil), service.Elicit("b", "b?", nil))
		if err != nil {
			return "", err
		}
		a, err := first.Elicited("a", nil)
		if err != nil {
			return "", err
		}
		if _, err = call.Ask(service.Roots("c")); err != nil {
			return "", err
		}
		last, err := call.Ask(service.Elicit("d", a, nil))
		if err != nil {
			return "", err
		}
		d, err := last.Elicited("d", nil)
		b, _ := last.Elicited("b", nil)
		if _, never := last.Elicited("never", nil); never == nil {
			return "an answer nobody asked for", nil
		}
		return strings.Join([]string{a, b, d, string(rune('0' + len(call.State())))}, " "), err
	})
	c := run(t, s)
	question := func(key, message string) string {
		return `"` + key + `":{"method":"elicitation/create","params":{"message":"` + message + `","mode":"form","requestedSchema":null}}`
	}
	const caps = `{"elicitation":{},"roots":{"listChanged":true}}`
	frame, err := c.round("interview", caps, "", nil)
	state := c.asks(frame, err, `{`+question("a", "a?")+`,`+question("b", "b?")+`}`)
	// If one of two answers is missing, only that question is asked again.
	frame, err = c.round("interview", caps, `{"a":{"action":"accept"}}`, state)
	state = c.asks(frame, err, `{`+question("b", "b?")+`}`)
	frame, err = c.round("interview", caps, `{"b":{"action":"decline"}}`, state)
	state = c.asks(frame, err, `{"c":{"method":"roots/list","params":{}}}`)
	frame, err = c.round("interview", caps, `{"c":{"roots":[]}}`, state)
	state = c.asks(frame, err, `{`+question("d", "accept")+`}`)
	frame, err = c.round("interview", caps, `{"d":{"action":"cancel"}}`, state)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "end", string(frame.GetResult().GetJson()), said("accept decline cancel 6"))
}

func TestAskNeedsCapability(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	for name, q := range map[string]service.Question{
		"form": service.Elicit("k", "m", nil), "url": service.ElicitURL("k", "m", "https://example.com", "e"),
		"sampling": service.Sample("k", service.Sampling{}), "roots": service.Roots("k"),
	} {
		askingTool(s, name, func(call *service.Call) (string, error) {
			_, err := call.Ask(q)
			return "", err
		})
	}
	askingTool(s, "can", func(call *service.Call) (string, error) {
		var can []string
		for _, capability := range []string{"elicitation", "sampling", "roots", "x"} {
			if call.Can(capability) {
				can = append(can, capability)
			}
		}
		return strings.Join(can, " "), nil
	})
	c := run(t, s)
	for name, x := range map[string]struct{ tool, caps, lacks string }{
		"form, none":                {"form", ``, `{"elicitation":{}}`},
		"form, empty":               {"form", `{}`, `{"elicitation":{}}`},
		"form, others":              {"form", `{"sampling":{},"roots":{}}`, `{"elicitation":{}}`},
		"form, not an object":       {"form", `[]`, `{"elicitation":{}}`},
		"form, plain":               {"form", `{"elicitation":{}}`, ""},
		"form, form":                {"form", `{"elicitation":{"form":{}}}`, ""},
		"form, url only":            {"form", `{"elicitation":{"url":{}}}`, `{"elicitation":{}}`},
		"url, plain":                {"url", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		"url, form only":            {"url", `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`},
		"url, url":                  {"url", `{"elicitation":{"url":{}}}`, ""},
		"url, none":                 {"url", `{}`, `{"elicitation":{"url":{}}}`},
		"sampling, none":            {"sampling", `{"elicitation":{}}`, `{"sampling":{}}`},
		"sampling":                  {"sampling", `{"sampling":{}}`, ""},
		"roots, none":               {"roots", `{"elicitation":{}}`, `{"roots":{}}`},
		"roots":                     {"roots", `{"roots":{}}`, ""},
		"roots, name in wrong case": {"roots", `{"Roots":{}}`, `{"roots":{}}`},
	} {
		frame, err := c.round(x.tool, x.caps, "", nil)
		if x.lacks == "" {
			if err != nil || frame.GetInputRequired() == nil {
				t.Errorf("%s: %v, %v", name, frame, err)
			}
			continue
		}
		if f := fault.From(err); err == nil || f.Reason != fault.MissingCapability || f.Executed != fault.No || string(f.Data) != `{"requiredCapabilities":`+x.lacks+`}` {
			t.Errorf("%s: %v, data %s", name, err, f.Data)
		}
	}
	for caps, want := range map[string]string{``: "", `{}`: "", everyCapability: "elicitation sampling roots", `{"roots":{}}`: "roots"} {
		frame, err := c.round("can", caps, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, caps, string(frame.GetResult().GetJson()), said(want))
	}
}
