package caller

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Web makes the requests.
var Web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 20 * time.Second}}

// BothForms is the header Accept of MCP.
const BothForms = "application/json, text/event-stream"

// KeyMeta is where MCP's requests have an idempotency key.
const KeyMeta = "io.github.busbar-mcp/idempotencyKey"

// New returns a request with a JSON body to an edge. The address is a host and a port.
func New(ctx context.Context, method, edge, path, body string, headers ...string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+edge+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r, nil
}

// Request makes a request and reads the whole answer.
func Request(ctx context.Context, method, edge, path, body string, headers ...string) (*http.Response, []byte, error) {
	r, err := New(ctx, method, edge, path, body, headers...)
	if err != nil {
		return nil, nil, err
	}
	resp, err := Web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, b, err
}

// Post posts JSON and reads the whole answer.
func Post(ctx context.Context, edge, path, body string, headers ...string) (*http.Response, []byte, error) {
	return Request(ctx, http.MethodPost, edge, path, body, headers...)
}

// Ask reads the JSON at a path of a program, whatever the status of the answer.
func Ask(ctx context.Context, address, path string, into any) (*http.Response, error) {
	resp, body, err := Request(ctx, http.MethodGet, address, path, "")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return resp, fmt.Errorf("%s answers %s: %w", address, resp.Status, err)
	}
	return resp, nil
}

// REST makes a call at the door for REST.
func REST(ctx context.Context, edge string, c Call) Answer {
	var headers []string
	if c.Key != "" {
		headers = []string{"Idempotency-Key", c.Key}
	}
	return posted(ctx, edge, "/tools/"+c.Tool, c.Arguments, headers...)
}

// Approve says yes to a held call, which runs then.
func Approve(ctx context.Context, edge, approval string) Answer {
	return posted(ctx, edge, "/approvals/"+approval, `{"approve":true}`)
}

func posted(ctx context.Context, edge, path, body string, headers ...string) Answer {
	resp, b, err := Post(ctx, edge, path, body, headers...)
	switch {
	case err != nil:
		return Broken(err)
	case resp.StatusCode != http.StatusOK:
		return Refused(b)
	}
	return Result(b)
}

// MCP is a request of MCP with the members of its params, modern or legacy.
func MCP(id int, method, params string, meta ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{%s}}}`, id, method, params, strings.Join(meta, ","))
}

// Params are the members that name a call's tool and have its arguments.
func (c Call) Params() string {
	return fmt.Sprintf(`"name":%s,"arguments":%s,`, Quoted(c.Tool), c.Arguments)
}

// Meta are the members of _meta that the call has.
func (c Call) Meta() []string {
	if c.Key == "" {
		return nil
	}
	return []string{Quoted(KeyMeta) + ":" + Quoted(c.Key)}
}

// Capable is the _meta of a request of 2026-07-28, with the client's capabilities.
func Capable(capabilities string) string {
	return fmt.Sprintf(`%q:%q,%q:{"name":"caller","version":"1"},%q:%s`, mcp.MetaProtocolVersion, mcp.Modern, mcp.MetaClientInfo, mcp.MetaClientCapabilities, capabilities)
}

// ModernHeaders returns the headers of a request of 2026-07-28.
func ModernHeaders(method, name string) []string {
	h := []string{"Accept", BothForms, mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, method}
	if name != "" {
		h = append(h, mcp.HeaderName, name)
	}
	return h
}

// ModernPost makes a request of 2026-07-28 and reads the response.
func ModernPost(ctx context.Context, edge, method, name, body string) (Message, error) {
	_, b, err := Post(ctx, edge, "/mcp", body, ModernHeaders(method, name)...)
	if err != nil {
		return Message{}, err
	}
	return AnswerTo(b)
}

// Modern makes a call of 2026-07-28.
func Modern(ctx context.Context, edge string, c Call) Answer {
	m, err := ModernPost(ctx, edge, mcp.MethodToolsCall, c.Tool, MCP(1, mcp.MethodToolsCall, c.Params(), append(c.Meta(), Capable("{}"))...))
	if err != nil {
		return Broken(err)
	}
	return m.Answer()
}

// Initialize is the first request of a session.
func Initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"caller","version":"1"}}}`
}

// Session is one of 2025-11-25 over Streamable HTTP, at one edge; all others know it
// by its ID.
type Session struct{ Edge, ID string }

// OpenSession begins a session.
func OpenSession(ctx context.Context, edge string) (*Session, error) {
	resp, body, err := Post(ctx, edge, "/mcp", Initialize(mcp.V20251125), "Accept", BothForms)
	if err != nil {
		return nil, err
	}
	s := &Session{edge, resp.Header.Get(mcp.HeaderSessionID)}
	if s.ID == "" {
		return nil, fmt.Errorf("initialize: %d %.200s", resp.StatusCode, body)
	}
	return s, nil
}

// Headers returns the headers of a request of the session.
func (s *Session) Headers(more ...string) []string {
	return append(more, "Accept", BothForms, mcp.HeaderProtocolVersion, mcp.V20251125, mcp.HeaderSessionID, s.ID)
}

// Call makes a call in the session. Where an edge does not know the session, the
// reason is "session".
func (s *Session) Call(ctx context.Context, c Call) Answer {
	resp, b, err := Post(ctx, s.Edge, "/mcp", MCP(2, mcp.MethodToolsCall, c.Params(), c.Meta()...), s.Headers()...)
	if err != nil {
		return Broken(err)
	}
	if resp.StatusCode == http.StatusNotFound {
		return Answer{Reason: "session", Executed: "no", Detail: string(b)}
	}
	m, err := AnswerTo(b)
	if err != nil {
		return Broken(err) // the stream was cut off
	}
	return m.Answer()
}

// Close ends the session, as a client should; one that cannot is forgotten after a day.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _, _ = Request(ctx, http.MethodDelete, s.Edge, "/mcp", "", s.Headers()...)
}
