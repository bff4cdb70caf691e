package edgetest

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Meta is the _meta of a modern request, with more members after it.
func Meta(more string) string {
	if more != "" {
		more = "," + more
	}
	return `"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientInfo +
		`":{"name":"test","version":"1"},"` + mcp.MetaClientCapabilities + `":{"elicitation":{}}` + more + `}`
}

// Request is a modern request; params are the members besides _meta.
func Request(id, method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + Meta("") + `}}`
}

// Call is a modern tools/call.
func Call(id, tool, arguments string) string {
	return Request(id, mcp.MethodToolsCall, `"name":"`+tool+`","arguments":`+arguments)
}

// Listen is a subscriptions/listen with a filter.
func Listen(id, filter string) string {
	return Request(id, mcp.MethodListen, `"notifications":`+filter)
}

// Legacy is a request without _meta.
func Legacy(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// LegacyCall is a tools/call without _meta.
func LegacyCall(id, tool, arguments string) string {
	return Legacy(id, mcp.MethodToolsCall, `"name":"`+tool+`","arguments":`+arguments)
}

// Initialize is an initialize request.
func Initialize(version string) string {
	return Legacy("0", mcp.MethodInitialize, `"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"test","version":"1"}`)
}

// Message is any message of a server.
type Message struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *Error         `json:"error,omitzero"`
}

// Error is a JSON-RPC error as Busbar writes it.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason       string         `json:"reason"`
		Executed     string         `json:"executed"`
		Next         string         `json:"next,omitzero"`
		RetryAfter   int            `json:"retryAfterMs,omitzero"`
		Supported    []string       `json:"supported,omitzero"`
		Requested    string         `json:"requested,omitzero"`
		URI          string         `json:"uri,omitzero"`
		Parameter    string         `json:"parameter,omitzero"`
		Detail       string         `json:"detail,omitzero"`
		Capabilities jsontext.Value `json:"requiredCapabilities,omitzero"`
	} `json:"data"`
}

// String is for failure messages of tests.
func (e *Error) String() string { return fmt.Sprintf("%+v", *e) }

// Read reads a message strictly.
func Read(t testing.TB, b []byte) Message {
	t.Helper()
	var m Message
	if err := json.Unmarshal(b, &m, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("not a message: %v\n%s", err, b)
	}
	if m.Version != "2.0" {
		t.Errorf("jsonrpc is %q", m.Version)
	}
	return m
}

// Text is the first text of a tool's result.
func (m Message) Text() string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// Field is a member of the result, as written.
func (m Message) Field(path ...string) string { return field(m.Result, path) }

// Param is a member of a notification's params, as written.
func (m Message) Param(path ...string) string { return field(m.Params, path) }

func field(v jsontext.Value, path []string) string {
	for _, name := range path {
		var o map[string]jsontext.Value
		if json.Unmarshal(v, &o) != nil {
			return ""
		}
		v = o[name]
	}
	return string(v)
}

// Code is the error's code, 0 for none.
func (m Message) Code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}
