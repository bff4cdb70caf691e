package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// plain makes a request to a path beside the MCP endpoint, where the edge has
// what MCP has no method for.
func (c *Client) plain(ctx context.Context, method string, body io.Reader, path ...string) (*http.Request, error) {
	u, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	for i, segment := range path {
		path[i] = url.PathEscape(segment)
	}
	u.Path = "/" + strings.Trim(strings.TrimSuffix(u.Path, "/mcp"), "/")
	r, err := http.NewRequestWithContext(ctx, method, u.JoinPath(path...).String(), body)
	if err != nil {
		return nil, &UsageError{Message: err.Error()}
	}
	for name, values := range c.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("User-Agent", "busbar/"+c.version())
	return r, nil
}

// ask makes such a request and returns the answer's body, a JSON value. carries
// is the method of MCP that the request has carried out; empty for none.
func (c *Client) ask(ctx context.Context, carries string, r *http.Request) (jsontext.Value, error) {
	defer c.waiting()()
	var sent atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	lost := func(err error) error {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &TransportError{URL: c.shownURL(), Method: carries, Sent: sent.Load(), Err: err}
	}
	resp, err := c.httpClient().Do(r)
	if err != nil {
		return nil, lost(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, c.refusal(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return nil, lost(err)
	}
	if !jsontext.Value(body).IsValid() {
		return nil, &ProtocolError{Method: carries, Message: "the answer is not JSON"}
	}
	return body, nil
}

// operation makes a request for an operation of the edge's table. about is the name or id that
// it is about, if it is about one thing.
func (c *Client) operation(ctx context.Context, name string, body io.Reader, about ...string) (*http.Request, error) {
	o := api.Operations[slices.IndexFunc(api.Operations, func(o *api.Operation) bool { return o.Name == name })]
	method, path, _ := strings.Cut(o.HTTP.Path, " /")
	root, _, _ := strings.Cut(path, "/")
	r, err := c.plain(ctx, method, body, append([]string{root}, about...)...)
	if err == nil && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// get returns the output of an operation that reads, a JSON value.
func (c *Client) get(ctx context.Context, name string, about ...string) (jsontext.Value, error) {
	r, err := c.operation(ctx, name, nil, about...)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, "", r)
}

// read is get, into v, which is called what in an error.
func (c *Client) read(ctx context.Context, v any, what, name string, about ...string) error {
	body, err := c.get(ctx, name, about...)
	if err != nil {
		return err
	}
	if err := decode(body, v); err != nil {
		return &ProtocolError{Message: what + " is malformed", Err: err}
	}
	return nil
}

// refusal is the error that an answer means: a problem that the edge reports, or
// another program's answer.
func (c *Client) refusal(resp *http.Response) error {
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "application/problem+json" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
		if e := readProblem(body); err == nil && e != nil {
			return e
		}
	}
	return c.notMCP(resp)
}

// readProblem reads problem details as the edge writes them; nil for anything
// else.
func readProblem(b []byte) *RPCError {
	var p struct {
		Detail       string         `json:"detail"`
		Reason       fault.Reason   `json:"reason"`
		Executed     fault.Executed `json:"executed"`
		RetryAfterMS int64          `json:"retry_after_ms"`
		Data         jsontext.Value `json:"data"`
	}
	if decode(b, &p) != nil || p.Reason == "" {
		return nil
	}
	return &RPCError{Message: p.Detail, Reason: p.Reason, Executed: p.Executed, Data: p.Data, RetryAfter: time.Duration(p.RetryAfterMS) * time.Millisecond}
}

// Held is a call that waits for a person.
type Held struct {
	api.Held
	// Approver says who decides: "others" if the caller may not, otherwise "caller".
	Approver string `json:"approver,omitzero"`
}

// Held lists the caller's calls that wait until it agrees to them, the oldest
// first, without their parameters.
func (c *Client) Held(ctx context.Context) ([]Held, error) {
	var list struct {
		Approvals []Held `json:"approvals"`
	}
	err := c.read(ctx, &list, "the list", "listApprovals")
	return list.Approvals, err
}

// FindHeld returns one of them, with its parameters.
func (c *Client) FindHeld(ctx context.Context, id string) (*Held, error) {
	held := &Held{}
	return held, c.read(ctx, held, "the held call", "getApproval", id)
}

// Approve has a held call carried out, or, if yes is false, forgotten: then the
// result is nil.
func (c *Client) Approve(ctx context.Context, id string, yes bool) (*Result, error) {
	said, carries := `{"approve":false}`, ""
	if yes {
		said, carries = `{"approve":true}`, mcp.MethodToolsCall
	}
	r, err := c.operation(ctx, "approve", strings.NewReader(said), id)
	if err != nil {
		return nil, err
	}
	body, err := c.ask(ctx, carries, r)
	if err != nil {
		return nil, denied(err, yes)
	}
	var res api.Result
	if err := decode(body, &res); err != nil {
		return nil, &ProtocolError{Method: carries, Message: "the result is malformed", Err: err}
	}
	return makeResult(res.Content, res.StructuredContent, res.IsError)
}

// denied is the error of Approve: that the call was not approved is what who
// says no wants.
func denied(err error, yes bool) error {
	var e *RPCError
	if !yes && errors.As(err, &e) && e.Reason == fault.Forbidden {
		return nil
	}
	return err
}

// makeResult makes the result of parts, as MCP has it.
func makeResult(content, structured []byte, isError bool) (*Result, error) {
	var b bytes.Buffer
	b.WriteString(`{"content":`)
	if len(content) == 0 {
		content = []byte("[]")
	}
	b.Write(content)
	if len(structured) > 0 {
		b.WriteString(`,"structuredContent":`)
		b.Write(structured)
	}
	if isError {
		b.WriteString(`,"isError":true`)
	}
	b.WriteByte('}')
	return decodeResult(b.Bytes())
}
