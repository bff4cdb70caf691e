package doors

import (
	"context"
	"maps"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// call is one call of a tool, whatever the door.
type call struct {
	tool string
	// arguments as JSON, empty for none.
	arguments string
	token     string
	// parent is a traceparent in _meta, for doors of MCP; empty for none.
	parent string
}

// outcome is the outcome of a call, in terms that all doors share.
type outcome struct {
	// Of a result: its text, its structured content, whether the tool failed.
	text, structured string
	isError          bool
	// Of a call without one.
	reason, executed string
	retryMs          int64
	// data has the further members, as text.
	data map[string]string
	// said is the door's own word for it: an HTTP status, a code, or both.
	said string
}

// place is where a call ends that is refused; the zero place is the gateway, or
// the service.
type place int

const (
	// atMessage: it is not a call: the door cannot read it.
	atMessage place = iota + 1
	// atBody: it is larger than the door's limit.
	atBody
	// atIdentity: nobody knows who calls.
	atIdentity
)

// words returns a door's form of a reason, by the document.
type words func(d document, reason string) string

// door is one way to call a tool.
type door struct {
	name string
	// kind is the door in the audit trail.
	kind string
	call func(ctx context.Context, t *testing.T, w *world, c call) outcome
	// words are the door's own for a call, elsewhere those that differ.
	words     words
	elsewhere map[place]words
	// silent: there is the word alone, without reason.
	silent map[place]bool
	// unmet: this cannot come of a call there.
	unmet map[place]bool
	// modelSees: arguments that fail the schema give a result, which a model sees,
	// and no error.
	modelSees bool
	// lacks removes from an outcome the facts that the door cannot express; nil if it can express
	// all.
	lacks func(o *outcome)
}

func (r door) at(p place) words {
	if own, differs := r.elsewhere[p]; differs {
		return own
	}
	return r.words
}

// result reads a tool's result, with MCP's names or the names of API version 1.0.0.
func result(t *testing.T, v jsontext.Value) outcome {
	t.Helper()
	var r struct {
		Content []struct {
			Text string `json:"text,omitzero"`
		} `json:"content"`
		Structured  jsontext.Value `json:"structuredContent,omitzero"`
		Structured1 jsontext.Value `json:"structured_content,omitzero"`
		IsError     bool           `json:"isError,omitzero"`
		IsError1    bool           `json:"is_error,omitzero"`
	}
	if err := json.Unmarshal(v, &r); err != nil {
		t.Errorf("not a result: %v\n%.500s", err, v)
		return outcome{}
	}
	o := outcome{isError: r.IsError || r.IsError1}
	for _, c := range r.Content {
		o.text += c.Text
	}
	for _, s := range []jsontext.Value{r.Structured, r.Structured1} {
		if s != nil && s.Kind() != 'n' {
			o.structured = string(s)
		}
	}
	return o
}

// refusal reads the members of an error besides its message. Members without a name here are
// further facts.
func refusal(t *testing.T, v jsontext.Value) outcome {
	t.Helper()
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v, &members); err != nil {
		t.Errorf("not the facts of an error: %v\n%.500s", err, v)
		return outcome{}
	}
	o := outcome{reason: text(members["reason"]), executed: text(members["executed"])}
	for _, name := range []string{"retryAfterMs", "retry_after_ms"} {
		if n, ok := members[name]; ok && n.Kind() == '0' {
			_ = json.Unmarshal(n, &o.retryMs)
		}
	}
	maps.DeleteFunc(members, func(name string, _ jsontext.Value) bool {
		switch name {
		case "reason", "executed", "next", "retryAfterMs", "retry_after_ms", "code":
			return true
		}
		return false
	})
	o.data = facts(members)
	return o
}

// facts are members of an object as text; nil for none.
func facts(members map[string]jsontext.Value) map[string]string {
	if len(members) == 0 {
		return nil
	}
	out := map[string]string{}
	for name, v := range members {
		out[name] = text(v)
	}
	return out
}

// slot reads the outcome of one call of a batch.
func slot(t *testing.T, v jsontext.Value) outcome {
	t.Helper()
	var s struct {
		Reason  *string        `json:"reason"`
		Error   *string        `json:"error"`
		Content jsontext.Value `json:"content,omitzero"`
		Data    jsontext.Value `json:"data,omitzero"`
	}
	if err := json.Unmarshal(v, &s); err != nil {
		t.Errorf("not a slot: %v\n%.500s", err, v)
		return outcome{}
	}
	if s.Error == nil {
		return result(t, v)
	}
	o := refusal(t, v)
	o.data = nil
	if s.Data != nil && s.Data.Kind() == '{' {
		var members map[string]jsontext.Value
		_ = json.Unmarshal(s.Data, &members)
		o.data = facts(members)
	}
	return o
}

// text is a JSON string's text, or any other value as it is written.
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return string(v)
	}
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}
