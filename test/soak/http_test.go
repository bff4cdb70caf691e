package soak

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// client makes calls through a door, one at a time. Once a call has answered
// that its connection broke, it is of no more use.
type client interface {
	call(context.Context, call) answer
	close()
}

// door is a way to call.
type door struct {
	name string
	open func(context.Context, *fleet, *edge) (client, error)
	// keyless: there is no place for an idempotency key.
	keyless bool
	// dear: a connection costs a process, so it is opened less often.
	dear bool
}

var doors = []door{
	{name: "modern", open: stateless(modernCall)},
	{name: "legacy", open: openLegacy},
	{name: "sse", open: openSSE},
	{name: "mcp over /ws", open: openMCPSocket},
	{name: "/ws", open: openSocket},
	{name: "rest", open: stateless(restCall)},
	{name: "graphql", open: stateless(graphQLCall)},
	{name: "/v1", open: stateless(envelopeCall), keyless: true},
	{name: "grpc", open: openGRPC},
	{name: "stdio", open: openStdio, dear: true},
}

var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 20 * time.Second}}

// post posts JSON and reads the whole answer.
func post(ctx context.Context, e *edge, path, body string, headers ...string) (*http.Response, []byte, error) {
	return request(ctx, http.MethodPost, e, path, body, headers...)
}

func request(ctx context.Context, method string, e *edge, path, body string, headers ...string) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+e.web+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

// callOnce is a door without connections of its own.
type callOnce struct {
	e  *edge
	do func(context.Context, *edge, call) answer
}

func (s callOnce) call(ctx context.Context, c call) answer { return s.do(ctx, s.e, c) }
func (callOnce) close()                                    {}

func stateless(do func(context.Context, *edge, call) answer) func(context.Context, *fleet, *edge) (client, error) {
	return func(_ context.Context, _ *fleet, e *edge) (client, error) { return callOnce{e, do}, nil }
}

func restCall(ctx context.Context, e *edge, c call) answer {
	var headers []string
	if c.key != "" {
		headers = []string{"Idempotency-Key", c.key}
	}
	resp, body, err := post(ctx, e, "/tools/"+c.tool, c.arguments, headers...)
	switch {
	case err != nil:
		return broken(err)
	case resp.StatusCode != http.StatusOK:
		return refused(body)
	}
	return result(body)
}

func graphQLCall(ctx context.Context, e *edge, c call) answer {
	const document = `mutation($n:String!,$p:JSON,$k:String){done:executeTool(input:{name:$n,parameters:$p,idempotency_key:$k}){content{text} structured_content is_error}}`
	key := "null"
	if c.key != "" {
		key = quoted(c.key)
	}
	_, body, err := post(ctx, e, "/graphql", fmt.Sprintf(`{"query":%s,"variables":{"n":%s,"p":%s,"k":%s}}`, quoted(document), quoted(c.tool), c.arguments, key))
	if err != nil {
		return broken(err)
	}
	var r struct {
		Data struct {
			Done jsontext.Value `json:"done"`
		} `json:"data"`
		Errors []struct {
			Extensions jsontext.Value `json:"extensions"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(body, &r); err == nil && len(r.Errors) > 0 {
		return refused(r.Errors[0].Extensions)
	}
	return result(r.Data.Done)
}

func envelopeCall(ctx context.Context, e *edge, c call) answer {
	resp, body, err := post(ctx, e, "/v1", fmt.Sprintf(`{"version":"1.0","action":{"name":%s,"parameters":%s}}`, quoted(c.tool), c.arguments))
	if err != nil {
		return broken(err)
	}
	if resp.StatusCode != http.StatusOK {
		return answer{reason: resp.Header.Get("Busbar-Reason"), executed: resp.Header.Get("Busbar-Executed"), detail: string(body)}
	}
	var r struct {
		Status string         `json:"status"`
		Result jsontext.Value `json:"result"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Status != "success" {
		return answer{reason: "unreadable", executed: "unknown", detail: string(body)}
	}
	return answer{ok: true, text: string(r.Result)}
}

const keyMeta = "io.github.busbar-mcp/idempotencyKey"

// mcpRequest is a request of MCP with the members of its params, for either era.
func mcpRequest(id int, method, params string, meta ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{%s}}}`, id, method, params, strings.Join(meta, ","))
}

func toolParams(c call) string {
	return fmt.Sprintf(`"name":%s,"arguments":%s,`, quoted(c.tool), c.arguments)
}

func keyOf(c call) []string {
	if c.key == "" {
		return nil
	}
	return []string{quoted(keyMeta) + ":" + quoted(c.key)}
}

// capable is the _meta of a request of 2026-07-28, with what the client can.
func capable(capabilities string) string {
	return fmt.Sprintf(`%q:%q,%q:{"name":"soak","version":"1"},%q:%s`, mcp.MetaProtocolVersion, mcp.Modern, mcp.MetaClientInfo, mcp.MetaClientCapabilities, capabilities)
}

const bothForms = "application/json, text/event-stream"

func modernPost(ctx context.Context, e *edge, method, name, body string) (message, error) {
	_, b, err := post(ctx, e, "/mcp", body, "Accept", bothForms, mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, method, mcp.HeaderName, name)
	if err != nil {
		return message{}, err
	}
	return answerTo(b)
}

func modernCall(ctx context.Context, e *edge, c call) answer {
	m, err := modernPost(ctx, e, mcp.MethodToolsCall, c.tool, mcpRequest(1, mcp.MethodToolsCall, toolParams(c), append(keyOf(c), capable("{}"))...))
	if err != nil {
		return broken(err)
	}
	return m.answer()
}

// legacySession is one of 2025-11-25 over Streamable HTTP.
type legacySession struct {
	e  *edge
	id string
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`
}

func openLegacy(ctx context.Context, _ *fleet, e *edge) (client, error) { return openSession(ctx, e) }

func openSession(ctx context.Context, e *edge) (*legacySession, error) {
	resp, body, err := post(ctx, e, "/mcp", initialize(mcp.V20251125), "Accept", bothForms)
	if err != nil {
		return nil, err
	}
	s := &legacySession{e, resp.Header.Get(mcp.HeaderSessionID)}
	if s.id == "" {
		return nil, fmt.Errorf("initialize: %d %.200s", resp.StatusCode, body)
	}
	return s, nil
}

func (s *legacySession) headers(more ...string) []string {
	return append(more, "Accept", bothForms, mcp.HeaderProtocolVersion, mcp.V20251125, mcp.HeaderSessionID, s.id)
}

func (s *legacySession) call(ctx context.Context, c call) answer {
	_, b, err := post(ctx, s.e, "/mcp", mcpRequest(2, mcp.MethodToolsCall, toolParams(c), keyOf(c)...), s.headers()...)
	if err != nil {
		return broken(err)
	}
	m, err := answerTo(b)
	if err != nil {
		return broken(err) // the stream was cut off
	}
	return m.answer()
}

// close ends the session, as a client should; one that cannot is forgotten after
// a day.
func (s *legacySession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _, _ = request(ctx, http.MethodDelete, s.e, "/mcp", "", s.headers()...)
}
