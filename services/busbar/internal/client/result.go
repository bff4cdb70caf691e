package client

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Types of results.
const (
	typeComplete      = "complete"
	typeInputRequired = "input_required"
	typeTask          = "task"
)

// Progress is how far a call has come.
type Progress struct {
	Progress float64 `json:"progress"`
	// Total is nil when unknown.
	Total   *float64 `json:"total"`
	Message string   `json:"message"`
}

// Result is what a tool answered.
type Result struct {
	// Raw is the result object as received.
	Raw jsontext.Value `json:"-"`
	// Content is for people and models.
	Content []Content `json:"content"`
	// Structured is for programs: any JSON value; nil when absent.
	Structured jsontext.Value `json:"structuredContent"`
	// IsError says that the tool itself failed; Content tells how.
	IsError bool `json:"isError"`
	// Meta is what the result says for programs, any JSON value; nil when absent.
	Meta jsontext.Value `json:"_meta"`
	// InputRequests is what the server wants to know first. Not nil means that
	// there is no result yet.
	InputRequests []InputRequest `json:"-"`
	// RequestState goes back to the server with the answers.
	RequestState string `json:"requestState"`
	// Task is what the call goes on as; empty for none. Then there is no result yet.
	Task string `json:"-"`
}

// Content is one item of a result. Which fields are set depends on Type.
type Content struct {
	// Type is "text", "image", "audio", "resource_link" or "resource".
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        string `json:"data"`
	MIMEType    string `json:"mimeType"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Resource is set for an embedded resource.
	Resource *struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
}

// InputRequest is one question of the server.
type InputRequest struct {
	// Key is the server's name for it.
	Key string
	// Method is, for example, "elicitation/create".
	Method string
	// Message is the question, if the request has one in words.
	Message string
	// URL is where to answer it, if it is to be answered there.
	URL string
	// Form is the schema of the answer, if it is a form; nil for none.
	Form jsontext.Value
}

// resultType returns a result's type; absent means complete.
func resultType(raw []byte) string {
	var r struct {
		Type string `json:"resultType"`
	}
	if decode(raw, &r) != nil {
		return "not a string"
	}
	return cmp.Or(r.Type, typeComplete)
}

func decodeResult(raw jsontext.Value) (*Result, error) {
	malformed := func(message string, err error) error {
		return &ProtocolError{Method: mcp.MethodToolsCall, Message: message, Err: err}
	}
	res := &Result{Raw: raw}
	switch typ := resultType(raw); typ {
	case typeComplete:
		if err := decode(raw, res); err != nil {
			return nil, malformed("the result is malformed", err)
		}
	case typeInputRequired:
		requests, err := decodeInputRequests(raw)
		if err != nil {
			return nil, malformed("the server's question is malformed", err)
		}
		res.InputRequests = requests
		if decode(raw, res) != nil { // content of another type than a list
			return nil, malformed("the server's question is malformed", nil)
		}
	case typeTask:
		t, err := decodeTask(raw)
		if err != nil {
			return nil, malformed(err.Error(), nil)
		}
		res.Task = t.ID
	default:
		return nil, malformed(fmt.Sprintf("unknown type of result %q", typ), nil)
	}
	return res, nil
}

// refusal is what the edge says of arguments that it refused, which MCP has as a failure
// of the tool, so that a model reads it; nil for any other result.
func (r *Result) refusal() error {
	var meta map[string]jsontext.Value
	var failure struct {
		Reason   fault.Reason   `json:"reason"`
		Executed fault.Executed `json:"executed"`
	}
	if !r.IsError || decode(r.Meta, &meta) != nil || decode(meta[mcp.MetaFailure], &failure) != nil || failure.Executed != fault.No {
		return nil
	}
	return &RPCError{Message: strings.TrimSpace(resultText(r, false)), Reason: failure.Reason, Executed: fault.No}
}

// replayed reports whether the result is the answer to an earlier call with the same key.
func (r *Result) replayed() bool {
	var meta map[string]jsontext.Value
	return len(r.Meta) > 0 && decode(r.Meta, &meta) == nil && string(meta[mcp.MetaReplayed]) == "true"
}

// decodeInputRequests reads the questions in the order of the message. The
// list is never nil.
func decodeInputRequests(raw []byte) ([]InputRequest, error) {
	var wire struct {
		Requests jsontext.Value `json:"inputRequests"`
	}
	if err := decode(raw, &wire); err != nil {
		return nil, err
	}
	found := []InputRequest{}
	err := eachMember(wire.Requests, func(key string, v jsontext.Value) error {
		var r struct {
			Method string `json:"method"`
			Params struct {
				Message  string         `json:"message"`
				URL      string         `json:"url"`
				Form     jsontext.Value `json:"requestedSchema"`
				Messages []struct {
					Content jsontext.Value `json:"content"`
				} `json:"messages"`
			} `json:"params"`
		}
		if err := decode(v, &r); err != nil {
			return err
		}
		in := InputRequest{Key: key, Method: r.Method, Message: r.Params.Message, URL: r.Params.URL, Form: r.Params.Form}
		if n := len(r.Params.Messages); in.Message == "" && n > 0 {
			var c Content // of sampling; a list of contents has no one text
			if decode(r.Params.Messages[n-1].Content, &c) == nil {
				in.Message = c.Text
			}
		}
		found = append(found, in)
		return nil
	})
	return found, err
}

// base64Size is the number of bytes that Base64 text stands for.
func base64Size(text string) int {
	n := base64.StdEncoding.DecodedLen(len(text))
	for i := len(text) - 1; i >= 0 && text[i] == '='; i-- {
		n--
	}
	return n
}
