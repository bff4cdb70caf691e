package soak

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// call is one call of a tool, whatever the door. The key is an idempotency key,
// or empty.
type call struct{ tool, arguments, key string }

// answer is what came of a call, in words that all doors have.
type answer struct {
	ok bool
	// text is the structured result's, or else the content's.
	text string
	// Of a call without a result. What the client itself saw, a connection that
	// broke, has the reason "connection".
	reason, executed string
	// approval is what the call waits for.
	approval string
	// detail is for people.
	detail string
}

func (a answer) String() string {
	if a.ok {
		return "ok"
	}
	return fmt.Sprintf("%s, executed %s: %.200s", a.reason, a.executed, a.detail)
}

// broken is the answer of a call whose connection failed. Who was not let in has
// sent nothing.
func broken(err error) answer {
	a := answer{reason: "connection", executed: "unknown", detail: err.Error()}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		a.executed = "no"
	}
	return a
}

// unsent is the answer of a call that could not even begin.
func unsent(err error) answer {
	a := broken(err)
	a.executed = "no"
	return a
}

// facts are what an error says besides its message, whatever it is called.
type facts struct {
	Reason   string `json:"reason"`
	Executed string `json:"executed"`
	Approval string `json:"approval"`
	Data     struct {
		Approval string `json:"approval"`
	} `json:"data"`
}

func refused(v []byte) answer {
	var f facts
	if err := json.Unmarshal(v, &f); err != nil || f.Reason == "" {
		return answer{reason: "unreadable", executed: "unknown", detail: fmt.Sprintf("%v: %.300s", err, v)}
	}
	if f.Approval == "" {
		f.Approval = f.Data.Approval
	}
	return answer{reason: f.Reason, executed: f.Executed, approval: f.Approval, detail: string(v)}
}

// result reads a tool's result under MCP's names or those of the API of version
// 1.0.0.
func result(v []byte) answer {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Structured  jsontext.Value `json:"structuredContent"`
		Structured1 jsontext.Value `json:"structured_content"`
		IsError     bool           `json:"isError"`
		IsError1    bool           `json:"is_error"`
		Reason      *string        `json:"reason"`
	}
	if err := json.Unmarshal(v, &r); err != nil {
		return answer{reason: "unreadable", executed: "unknown", detail: fmt.Sprintf("%v: %.300s", err, v)}
	}
	if r.Reason != nil { // a slot of a batch
		return refused(v)
	}
	a := answer{ok: !r.IsError && !r.IsError1}
	for _, c := range r.Content {
		a.text += c.Text
	}
	for _, s := range []jsontext.Value{r.Structured, r.Structured1} {
		if len(s) > 0 && s.Kind() == '{' {
			a.text = string(s)
		}
	}
	if !a.ok {
		a.reason, a.executed, a.detail = "tool_error", "yes", a.text
	}
	return a
}

// message is one of MCP's.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *struct {
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
}

func (m message) answer() answer {
	if m.Error == nil {
		return result(m.Result)
	}
	a := refused(m.Error.Data)
	a.detail = m.Error.Message
	return a
}

// answerTo reads the response out of a body that is a message or a stream of
// events.
func answerTo(body []byte) (message, error) {
	var m message
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		for line := range bytes.Lines(body) {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok || len(bytes.TrimSpace(data)) == 0 {
				continue
			}
			m = message{}
			if err := json.Unmarshal(data, &m); err != nil {
				return m, err
			}
			if m.Method == "" {
				return m, nil
			}
		}
		return m, fmt.Errorf("the stream has no response: %.200s", body)
	}
	return m, json.Unmarshal(body, &m)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
