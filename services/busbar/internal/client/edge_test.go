package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// received is a request as the fake edge got it.
type received struct {
	header http.Header
	http   *http.Request
	id     string
	Method string `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		Arguments json.RawMessage            `json:"arguments"`
		Cursor    *string                    `json:"cursor"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

// fakeEdge answers as the specification says, and fails the test when the
// client does not ask as it says.
type fakeEdge struct {
	*httptest.Server
	mu       sync.Mutex
	requests []received
}

// handlers answer by method.
type handlers map[string]func(w http.ResponseWriter, r received)

func newEdge(t *testing.T, h handlers) *fakeEdge {
	t.Helper()
	e := &fakeEdge{}
	ids := map[string]bool{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/tools" { // as behind a proxy that passes MCP alone
			http.NotFound(w, req)
			return
		}
		r, err := receive(req)
		if err != nil {
			t.Errorf("bad request: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		if ids[r.id] {
			t.Errorf("id %s used twice", r.id)
		}
		ids[r.id] = true
		e.requests = append(e.requests, r)
		e.mu.Unlock()
		if handle := h[r.Method]; handle != nil {
			handle(w, r)
			return
		}
		r.fail(w, http.StatusNotFound, `{"code":-32601,"message":"no such method","data":{"reason":"method_not_found","executed":"no"}}`)
	}))
	t.Cleanup(e.Close)
	return e
}

// receive checks what every request must have.
func receive(req *http.Request) (received, error) {
	r := received{header: req.Header, http: req}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return r, err
	}
	m, err := mcp.Parse(body, mcp.Limits{})
	if err != nil || m.Kind != mcp.Request {
		return r, fmt.Errorf("not a request: %s: %v", body, err)
	}
	r.id = string(m.ID)
	if err := json.Unmarshal(body, &r); err != nil {
		return r, err
	}
	name, err := mcp.DecodeHeader(req.Header.Get("Mcp-Name"))
	for what, bad := range map[string]bool{
		"path " + req.URL.Path: req.URL.Path != "/mcp",
		"HTTP method":          req.Method != http.MethodPost,
		"Content-Type":         req.Header.Get("Content-Type") != "application/json",
		"Accept":               !strings.Contains(req.Header.Get("Accept"), "application/json") || !strings.Contains(req.Header.Get("Accept"), "text/event-stream"),
		"version header":       req.Header.Get("MCP-Protocol-Version") != "2026-07-28",
		"version in _meta":     m.P.ProtocolVersion != "2026-07-28",
		"clientInfo":           !strings.Contains(string(m.P.ClientInfo), `"name":"busbar"`),
		"clientCapabilities":   string(m.P.ClientCapabilities) != "{}" && string(m.P.ClientCapabilities) != `{"elicitation":{"form":{},"url":{}}}`,
		"Mcp-Method":           req.Header.Get("Mcp-Method") != r.Method,
		"Mcp-Name":             err != nil || name != r.Params.Name,
		"session":              req.Header.Get("Mcp-Session-Id") != "",
	} {
		if bad {
			return r, fmt.Errorf("%s of %s", what, body)
		}
	}
	return r, nil
}

// got returns the requests of a method so far.
func (e *fakeEdge) got(method string) []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []received
	for _, r := range e.requests {
		if r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

func (r received) response(result string) string {
	return `{"jsonrpc":"2.0","id":` + r.id + `,"result":` + result + `}`
}

func (r received) result(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, r.response(result))
}

func (r received) fail(w http.ResponseWriter, status int, rpcError string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":`+r.id+`,"error":`+rpcError+`}`)
}

// events sends each message as an event, at once.
func (r received) events(w http.ResponseWriter, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, m := range messages {
		fmt.Fprintf(w, ": keep-alive\r\n\r\nevent: message\r\ndata: %s\r\n\r\n", m)
		w.(http.Flusher).Flush()
	}
}

func (r received) progress(rest string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(r.Params.Meta["progressToken"]) + `,` + rest + `}}`
}

// lists answers tools/list with one page.
func lists(tools ...string) func(http.ResponseWriter, received) {
	return func(w http.ResponseWriter, r received) {
		r.result(w, `{"resultType":"complete","tools":[`+strings.Join(tools, ",")+`]}`)
	}
}

// answers answers with a result.
func answers(result string) func(http.ResponseWriter, received) {
	return func(w http.ResponseWriter, r received) { r.result(w, result) }
}

// fails answers with an error.
func fails(status int, rpcError string) func(http.ResponseWriter, received) {
	return func(w http.ResponseWriter, r received) { r.fail(w, status, rpcError) }
}

const echo = `{"name":"echo","description":"Says it again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`

// noEnv is an empty environment.
func noEnv(string) string { return "" }

// outcome is what a command did.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) check(t *testing.T, code int, stdout string, stderr ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	if o.stdout != stdout {
		t.Errorf("stdout:\n%q\nwant:\n%q", o.stdout, stdout)
	}
	for _, s := range stderr {
		if !strings.Contains(o.stderr, s) {
			t.Errorf("stderr lacks %q", s)
		}
	}
	if len(stderr) == 0 && o.stderr != "" || t.Failed() {
		t.Errorf("stderr:\n%s", o.stderr)
	}
}

func runTools(t *testing.T, o Options) outcome {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = noEnv
	}
	var out, err bytes.Buffer
	code := RunTools(t.Context(), ToolsOptions{Options: o}, &out, &err)
	return outcome{code, out.String(), err.String()}
}

func runCall(t *testing.T, o CallOptions, stdin string) outcome {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = noEnv
	}
	in := strings.NewReader(stdin)
	return heard(t, in, func(out, errs io.Writer) int { return RunCall(t.Context(), o, in, out, errs) })
}

// given are the arguments of a call; none for no text.
func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// newPlainEdge is the URL of an edge that is not asked over MCP.
func newPlainEdge(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
