package service

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// Question is something to ask the client: Elicit, ElicitURL, Sample or Roots.
type Question struct {
	key        string
	method     string
	capability string
	mode       string // of an elicitation: "form" or "url"
	params     any
	// form is the schema of a form's fields; nil for other questions.
	form any
}

// Elicit asks the user to fill in a form. schema is a flat object schema of
// primitive properties (2026-07-28, client/elicitation). The answer is read
// with Answers.Elicited under the same key.
func Elicit(key, message string, schema any) Question {
	return Question{key, mcp.MethodElicit, "elicitation", "form", map[string]any{"mode": "form", "message": message, "requestedSchema": schema}, schema}
}

// ElicitURL asks the user to visit a page, for anything that must not pass
// through the client, such as a password.
func ElicitURL(key, message, url, elicitationID string) Question {
	return Question{key, mcp.MethodElicit, "elicitation", "url", map[string]any{"mode": "url", "message": message, "url": url, "elicitationId": elicitationID}, nil}
}

// Sampling is a request to the client's model.
type Sampling struct {
	Messages     []mcp.PromptMessage `json:"messages"`
	SystemPrompt string              `json:"systemPrompt,omitzero"`
	// MaxTokens is required by the protocol.
	MaxTokens     int      `json:"maxTokens"`
	Temperature   *float64 `json:"temperature,omitzero"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

// Sample asks the client's model.
func Sample(key string, s Sampling) Question {
	return Question{key, mcp.MethodSample, "sampling", "", s, nil}
}

// Roots asks which directories the client works in.
func Roots(key string) Question {
	return Question{key, mcp.MethodRoots, "roots", "", map[string]any{}, nil}
}

// Can reports whether the client can be asked with "elicitation", "sampling"
// or "roots".
func (c *Call) Can(capability string) bool {
	return c.declared(capability) != nil
}

// declared returns the client's declaration of a capability; nil if it lacks it.
func (c *Call) declared(capability string) jsontext.Value {
	var all map[string]jsontext.Value
	if json.Unmarshal(c.req.GetClient().GetCapabilities(), &all) != nil {
		return nil
	}
	return all[capability]
}

// missing returns the capability that the client lacks for a question, as the
// protocol writes it; nil if it lacks none.
func (c *Call) missing(q Question) map[string]any {
	has := c.declared(q.capability)
	var modes map[string]jsontext.Value
	if has != nil && q.mode != "" {
		_ = json.Unmarshal(has, &modes) // none declared means form
	}
	_, form := modes["form"]
	_, url := modes["url"]
	switch {
	case q.mode == "url" && !url:
		return map[string]any{q.capability: map[string]any{"url": map[string]any{}}}
	case has == nil, q.mode == "form" && url && !form:
		return map[string]any{q.capability: map[string]any{}}
	}
	return nil
}

// Ask puts questions to the client, all at once, and returns the answers. While answers are missing
// it returns an error, which the handler must return unchanged: the call ends, and the handler runs
// again from its start when the client has answered. Earlier answers are kept, so a handler may ask
// several times, in the order that suits it. Cause no effects before the last question.
func (c *Call) Ask(questions ...Question) (*Answers, error) {
	if c.req.Method == mcp.MethodComplete {
		return nil, errors.New("a completion cannot ask the client: the protocol has no answer for that")
	}
	var open []Question
	for _, q := range questions {
		if lacks := c.missing(q); lacks != nil {
			data, _ := marshal(map[string]any{"requiredCapabilities": lacks})
			what := q.capability
			if q.mode != "" {
				what += " in mode " + q.mode
			}
			return nil, fault.New(fault.MissingCapability, "the call asks its client something, which needs one that supports %s", what).With(data)
		}
		raw, ok := c.answered[q.key]
		if !ok {
			if q.form != nil {
				if _, err := q.formSchema(); err != nil {
					return nil, fmt.Errorf("the form of question %s: %w", q.key, err)
				}
			}
			open = append(open, q)
			continue
		}
		if err := q.check(raw); err != nil {
			return nil, badAnswer(answerAt(q.key), err)
		}
	}
	if len(open) > 0 {
		return nil, &inputRequired{questions: open}
	}
	return &Answers{c.answered}, nil
}

// SetState sets the bytes that State returns when the handler runs again. It travels through the
// client, encrypted.
func (c *Call) SetState(state []byte) { c.state = state }

// State returns the bytes that the previous run of this call gave to SetState; nil in the first
// run.
func (c *Call) State() []byte { return c.state }

// Answers are the client's answers to the questions of Ask.
type Answers struct {
	raw map[string][]byte
}

// Elicited reads a form's answer into v, a pointer, and returns the user's
// action. v is set only where that is Accepted.
func (a *Answers) Elicited(key string, v any) (action Action, err error) {
	var e elicited
	if err := a.read(key, &e); err != nil {
		return "", err
	}
	if e.Action == Accepted && v != nil && len(e.Content) > 0 {
		if err := json.Unmarshal(e.Content, v); err != nil {
			return "", badAnswer(answerAt(key), err)
		}
	}
	return e.Action, nil
}

// Sampled is the answer of the client's model.
type Sampled struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	Model      string         `json:"model"`
	StopReason string         `json:"stopReason,omitzero"`
}

// Text returns the answer's text, or "" if it is something else.
func (s *Sampled) Text() string {
	var c struct {
		Text string `json:"text,omitzero"`
	}
	if json.Unmarshal(s.Content, &c) != nil {
		return ""
	}
	return c.Text
}

// Sampled returns the model's answer.
func (a *Answers) Sampled(key string) (*Sampled, error) {
	s := &Sampled{}
	return s, a.read(key, s)
}

// Root is a directory or file the client works in.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitzero"`
}

// Roots returns the client's roots.
func (a *Answers) Roots(key string) ([]Root, error) {
	var r struct {
		Roots []Root `json:"roots"`
	}
	return r.Roots, a.read(key, &r)
}

func (a *Answers) read(key string, v any) error {
	raw, ok := a.raw[key]
	if !ok {
		return fmt.Errorf("no question %q was asked", key)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return badAnswer(answerAt(key), err)
	}
	return nil
}

// answerAt is the place of a key's answer in the request of an MCP client.
func answerAt(key string) string { return "params.inputResponses." + key }

func badAnswer(at string, err error) error {
	var invalid *schema.InvalidError
	if errors.As(err, &invalid) {
		return fault.New(fault.InvalidParams, "%s.content: %s", at, invalid.Error())
	}
	return fault.New(fault.InvalidParams, "%s is not a valid answer", at).Because(err)
}

// inputRequired is the error that carries questions from Ask through the handler.
type inputRequired struct{ questions []Question }

func (*inputRequired) Error() string { return "input required: return this error from the handler" }

func asInputRequired(err error) *inputRequired {
	var r *inputRequired
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// carried is the request state in wire format: the answers so far, and the handler's own state.
type carried struct {
	Answers map[string]jsontext.Value `json:"a,omitempty"`
	State   []byte                    `json:"s,omitempty"`
}

func (r *inputRequired) wire(c *Call) (*busv1.InputRequired, error) {
	requests := map[string]any{}
	for _, q := range r.questions {
		requests[q.key] = map[string]any{"method": q.method, "params": q.params}
	}
	raw, err := marshal(requests)
	if err != nil {
		return nil, err
	}
	state, err := c.carry()
	return &busv1.InputRequired{InputRequests: raw, RequestState: state}, err
}

// carry returns the request state for the next run; nil for none.
func (c *Call) carry() ([]byte, error) {
	if len(c.answered) == 0 && c.state == nil {
		return nil, nil
	}
	keep := carried{Answers: map[string]jsontext.Value{}, State: c.state}
	for k, v := range c.answered {
		keep.Answers[k] = v
	}
	return marshal(keep)
}

// openAnswers reads the answers of this round and of earlier ones.
func (c *Call) openAnswers() error {
	c.answered = map[string][]byte{}
	if len(c.req.RequestState) > 0 {
		var kept carried
		if err := json.Unmarshal(c.req.RequestState, &kept); err != nil {
			return fault.New(fault.InvalidParams, "params.requestState is not one that this server gave").Because(err)
		}
		c.state = kept.State
		for k, v := range kept.Answers {
			c.answered[k] = v
		}
	}
	if len(c.req.InputResponses) > 0 {
		var now map[string]jsontext.Value
		if err := json.Unmarshal(c.req.InputResponses, &now); err != nil {
			return fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
		}
		for k, v := range now {
			if v.Kind() == '{' {
				c.answered[k] = v
			}
		}
	}
	return nil
}
