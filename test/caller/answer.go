// Package caller makes calls as clients do, at the doors over HTTP, and says in one form what
// came of each. Tests that disturb a running Busbar count with it.
package caller

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Call is one call of a tool, whatever the door. Key is an idempotency key, or empty.
type Call struct{ Tool, Arguments, Key string }

// Answer is the outcome of a call, in terms that all doors share.
type Answer struct {
	OK bool
	// Text is the text of the structured result; without one, of the content.
	Text string
	// For a call without a result. If the client itself saw that the connection broke, the reason
	// is "connection".
	Reason, Executed string
	// Approval is the id of the approval that the call waits for.
	Approval string
	// Detail is for people.
	Detail string
}

func (a Answer) String() string {
	if a.OK {
		return "ok"
	}
	return fmt.Sprintf("%s, executed %s: %.200s", a.Reason, a.Executed, a.Detail)
}

// Broken is the answer of a call whose connection failed. A client that could not connect has sent
// nothing.
func Broken(err error) Answer {
	a := Answer{Reason: "connection", Executed: "unknown", Detail: err.Error()}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		a.Executed = "no"
	}
	return a
}

// Unsent is the answer of a call that could not even begin.
func Unsent(err error) Answer {
	a := Broken(err)
	a.Executed = "no"
	return a
}

// facts are the members of an error besides its message, under any of their names.
type facts struct {
	Reason   string `json:"reason"`
	Executed string `json:"executed"`
	Approval string `json:"approval"`
	Data     struct {
		Approval string `json:"approval"`
	} `json:"data"`
}

// Refused reads the error of a call.
func Refused(v []byte) Answer {
	var f facts
	if err := json.Unmarshal(v, &f); err != nil || f.Reason == "" {
		return Answer{Reason: "unreadable", Executed: "unknown", Detail: fmt.Sprintf("%v: %.300s", err, v)}
	}
	if f.Approval == "" {
		f.Approval = f.Data.Approval
	}
	return Answer{Reason: f.Reason, Executed: f.Executed, Approval: f.Approval, Detail: string(v)}
}

// Result reads a tool's result, with MCP's names or the names of API version 1.0.0.
func Result(v []byte) Answer {
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
		return Answer{Reason: "unreadable", Executed: "unknown", Detail: fmt.Sprintf("%v: %.300s", err, v)}
	}
	if r.Reason != nil { // a slot of a batch
		return Refused(v)
	}
	a := Answer{OK: !r.IsError && !r.IsError1}
	for _, c := range r.Content {
		a.Text += c.Text
	}
	for _, s := range []jsontext.Value{r.Structured, r.Structured1} {
		if len(s) > 0 && s.Kind() == '{' {
			a.Text = string(s)
		}
	}
	if !a.OK {
		a.Reason, a.Executed, a.Detail = "tool_error", "yes", a.Text
	}
	return a
}

// Message is one of MCP's.
type Message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
	Result jsontext.Value `json:"result"`
	Error  *struct {
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
}

// Answer returns the outcome of a call by its response.
func (m Message) Answer() Answer {
	if m.Error == nil {
		return Result(m.Result)
	}
	a := Refused(m.Error.Data)
	a.Detail = m.Error.Message
	return a
}

// AnswerTo reads the response out of a body that is a message or a stream of
// events.
func AnswerTo(body []byte) (Message, error) {
	var m Message
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		for line := range bytes.Lines(body) {
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok || len(bytes.TrimSpace(data)) == 0 {
				continue
			}
			m = Message{}
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

// Quoted is a string in JSON.
func Quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
