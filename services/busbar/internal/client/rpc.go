package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxMessage bounds one message of the server: an answer may carry pictures,
// but not take the machine down.
const maxMessage = 64 << 20

// limits are wide: what the edge may send is the edge's business.
var limits = mcp.Limits{
	Bytes: maxMessage, Depth: 500, Values: 10_000_000, Members: 1_000_000,
	NumberBytes: 1000, StringBytes: maxMessage,
}

// request is one JSON-RPC request to make.
type request struct {
	method string
	params params
	// header carries the mirrored parameters.
	header http.Header
	// progress asks for progress notifications, which onProgress hears.
	progress   bool
	onProgress func(Progress)
	// asks declares that a person can be asked, tasks that the call may go on as a task.
	asks, tasks bool
	// key is an idempotency key; empty for none.
	key string
}

// capabilities are what the request declares.
func (r *request) capabilities() map[string]any {
	all := map[string]any{}
	if r.asks {
		all["elicitation"] = map[string]any{"form": struct{}{}, "url": struct{}{}}
	}
	if r.tasks {
		all["extensions"] = map[string]any{mcp.ExtensionTasks: struct{}{}}
	}
	return all
}

// mirrored is the member of params that header Mcp-Name repeats; empty for none.
func (r *request) mirrored() string {
	switch r.method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return r.params.Name
	case mcp.MethodResourcesRead:
		return r.params.URI
	}
	return r.params.TaskID
}

// params of the methods this client uses.
type params struct {
	Name           string            `json:"name,omitzero"`
	URI            string            `json:"uri,omitzero"`
	Arguments      jsontext.Value    `json:"arguments,omitzero"`
	InputResponses jsontext.Value    `json:"inputResponses,omitzero"`
	RequestState   string            `json:"requestState,omitzero"`
	TaskID         string            `json:"taskId,omitzero"`
	Ref            map[string]string `json:"ref,omitzero"`
	Argument       map[string]string `json:"argument,omitzero"`
	Cursor         *string           `json:"cursor,omitzero"`
	Meta           map[string]any    `json:"_meta"`
}

type envelope struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  params         `json:"params"`
}

// do sends one request and returns the result as received.
func (c *Client) do(ctx context.Context, r request) (jsontext.Value, error) {
	id := c.nextID()
	req, err := c.newRequest(ctx, r, id)
	if err != nil {
		return nil, err
	}
	defer c.waiting()()
	x := exchange{client: c, request: r, id: id}
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.sent.Store(true) }}))
	resp, err := c.httpClient().Do(req)
	if err != nil {
		return nil, x.lost(ctx, err)
	}
	defer resp.Body.Close()

	contentType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case contentType == "text/event-stream" && resp.StatusCode == http.StatusOK:
		return x.stream(ctx, resp)
	case contentType == "application/json":
		return x.single(ctx, resp)
	}
	return nil, c.notMCP(resp)
}

func (c *Client) newRequest(ctx context.Context, r request, id string) (*http.Request, error) {
	u, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	r.params.Meta = map[string]any{
		mcp.MetaProtocolVersion:    mcp.Modern,
		mcp.MetaClientInfo:         mcp.Implementation{Name: "busbar", Title: "Busbar command line", Version: c.version()},
		mcp.MetaClientCapabilities: r.capabilities(),
	}
	if r.progress {
		r.params.Meta[mcp.MetaProgressToken] = jsontext.Value(id)
	}
	if r.key != "" {
		r.params.Meta[mcp.MetaIdempotencyKey] = r.key
	}
	body, err := json.Marshal(envelope{Version: "2.0", ID: jsontext.Value(id), Method: r.method, Params: r.params}, json.Deterministic(true))
	if err != nil {
		return nil, &UsageError{Message: "the request cannot be written as JSON: " + err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &UsageError{Message: err.Error()}
	}
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("User-Agent", "busbar/"+c.version())
	req.Header.Set(mcp.HeaderProtocolVersion, mcp.Modern)
	req.Header.Set(mcp.HeaderMethod, r.method)
	if name := r.mirrored(); name != "" {
		req.Header.Set(mcp.HeaderName, mcp.EncodeHeader(name))
	}
	return req, nil
}

func (c *Client) httpClient() *http.Client {
	h := http.Client{}
	if c.HTTP != nil {
		h = *c.HTTP
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &h
}

func (c *Client) version() string { return cmp.Or(c.Version, "dev") }

// shownURL is the URL for messages: without a password.
func (c *Client) shownURL() string {
	u, err := c.endpoint()
	if err != nil {
		return c.URL
	}
	return u.Redacted()
}

// notMCP explains an answer that is no JSON-RPC message.
func (c *Client) notMCP(resp *http.Response) error {
	e := &HTTPError{URL: c.shownURL(), Status: resp.StatusCode, Location: resp.Header.Get("Location")}
	if contentType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); contentType == "" || contentType == "text/plain" { // none: Go's server, where TLS is wanted
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // best effort: it only adds to the message
		e.Body = strings.TrimSpace(string(text))
	}
	return e
}

// exchange is one request waiting for its answer.
type exchange struct {
	client  *Client
	request request
	// id is the progress token too.
	id string
	// sent is whether the edge may have seen the request.
	sent atomic.Bool
}

// single reads a JSON answer.
func (x *exchange) single(ctx context.Context, resp *http.Response) (jsontext.Value, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage+1))
	if err != nil {
		return nil, x.lost(ctx, err)
	}
	m, err := mcp.Parse(body, limits)
	if err != nil || m.Kind != mcp.Response {
		if resp.StatusCode != http.StatusOK {
			return nil, x.client.notMCP(resp)
		}
		return nil, x.malformed("the answer is not a JSON-RPC response", err)
	}
	return x.answer(m, resp)
}

// stream reads an answer of events: notifications, then the response.
func (x *exchange) stream(ctx context.Context, resp *http.Response) (jsontext.Value, error) {
	events := newEventReader(resp.Body, maxMessage)
	for {
		data, err := events.next()
		switch {
		case errors.Is(err, errTooLong):
			return nil, x.malformed(fmt.Sprintf("the answer is larger than %d MiB", maxMessage>>20), nil)
		case errors.Is(err, io.EOF):
			return nil, x.lost(ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return nil, x.lost(ctx, err)
		}
		m, err := mcp.Parse(data, limits)
		if err != nil {
			return nil, x.malformed("an event is not a JSON-RPC message", err)
		}
		switch m.Kind {
		case mcp.Response:
			return x.answer(m, resp)
		case mcp.Notification:
			x.notified(m)
		}
		// Requests must not come this way (2026-07-28) and cannot be answered.
	}
}

// notified passes progress of this request on. Other notifications were not
// asked for.
func (x *exchange) notified(m mcp.Message) {
	if m.Method != mcp.NotifyProgress || x.request.onProgress == nil {
		return
	}
	var p struct {
		Token jsontext.Value `json:"progressToken"`
		Progress
	}
	if decode(m.Params, &p) != nil || string(p.Token) != x.id {
		return // progress is a courtesy: a bad one must not fail the call
	}
	x.request.onProgress(p.Progress)
}

// answer checks the response's id and tells result from error.
func (x *exchange) answer(m mcp.Message, resp *http.Response) (jsontext.Value, error) {
	if m.ID != nil && string(m.ID) != x.id {
		return nil, x.malformed(fmt.Sprintf("the answer is to request %s, not %s", m.ID, x.id), nil)
	}
	if m.Error == nil {
		return m.Result, nil
	}
	e, err := decodeRPCError(m.Error, resp.Header.Get("Retry-After"))
	if err != nil {
		return nil, x.malformed("the error is malformed", err)
	}
	return nil, e
}

// lost is the error of a request that got no answer.
func (x *exchange) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err() // rather than what the transport made of it
	}
	return &TransportError{URL: x.client.shownURL(), Method: x.request.method, Sent: x.sent.Load(), Err: err}
}

func (x *exchange) malformed(message string, err error) error {
	return &ProtocolError{Method: x.request.method, Message: message, Err: err}
}
