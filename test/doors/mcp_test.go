package doors

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
)

// mcpDoors speak MCP.
var mcpDoors = []door{
	{name: "streamable HTTP, 2026-07-28", kind: "streamable", call: streamableModern, words: mcpHTTP(mcp.Modern), modelSees: true},
	{name: "streamable HTTP, 2025-11-25", kind: "streamable", call: streamableLegacy, words: mcpHTTP(mcp.V20251125), modelSees: true},
	{name: "HTTP with SSE, 2024-11-05", kind: "sse", call: httpWithSSE, words: mcpCode(mcp.V20241105),
		elsewhere: map[place]words{atBody: ssePost, atIdentity: ssePost}},
	{name: "stdio, 2026-07-28", kind: "stdio", call: overStdio, words: mcpCode(mcp.Modern), modelSees: true, unmet: map[place]bool{atIdentity: true}},
	{name: "WebSocket, MCP 2025-06-18", kind: "websocket", call: mcpOverWebSocket, words: mcpCode(mcp.V20250618),
		elsewhere: map[place]words{atBody: closed1009, atIdentity: httpStatus}, silent: map[place]bool{atBody: true}},
}

// modernMeta is the _meta of requests of 2026-07-28.
const modernMeta = `"_meta":{"` + mcp.MetaProtocolVersion + `":"` + mcp.Modern + `","` + mcp.MetaClientInfo +
	`":{"name":"doors","version":"1"},"` + mcp.MetaClientCapabilities + `":{}}`

// callID is the id of every call.
const callID = "7"

func mcpCall(c call, meta string) string {
	params := `"name":"` + c.tool + `"`
	if c.arguments != "" {
		params += `,"arguments":` + c.arguments
	}
	if c.parent != "" {
		rest, _ := strings.CutPrefix(meta, `"_meta":{`)
		meta = strings.TrimSuffix(`"_meta":{"traceparent":"`+c.parent+`",`+strings.TrimSuffix(rest, "}"), ",") + "}"
	}
	if meta != "" {
		params += "," + meta
	}
	return `{"jsonrpc":"2.0","id":` + callID + `,"method":"tools/call","params":{` + params + `}}`
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"doors","version":"1"}}}`
}

// message is a response of MCP.
type message struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  *struct {
		Code int            `json:"code"`
		Data jsontext.Value `json:"data"`
	} `json:"error,omitzero"`
}

// answers reports whether a message is the response to the call, or to an unreadable one.
func (m message) answers() bool {
	return m.Method == "" && (m.ID == nil || string(m.ID) == callID || m.ID.Kind() == 'n')
}

func readMessage(t *testing.T, b []byte) message {
	t.Helper()
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		t.Errorf("not a message: %v\n%.500s", err, b)
	}
	return m
}

func (m message) outcome(t *testing.T) outcome {
	t.Helper()
	if m.Error == nil {
		return result(t, m.Result)
	}
	o := refusal(t, m.Error.Data)
	o.said = fmt.Sprint(m.Error.Code)
	return o
}

// post posts JSON and returns the whole answer.
func (w *world) post(ctx context.Context, t *testing.T, path, token, body string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	if parent := parentOf(ctx); parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{}, nil
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp, b
}

const bothForms = "application/json, text/event-stream"

func overHTTP(t *testing.T, resp *http.Response, body []byte) outcome {
	t.Helper()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		_, body, _ = bytes.Cut(body, []byte("data: {"))
		body, _, _ = bytes.Cut(append([]byte{'{'}, body...), []byte("\n"))
	}
	challenged(t, resp)
	o := readMessage(t, body).outcome(t)
	if o.reason != "" {
		o.said = fmt.Sprintf("%d %s", resp.StatusCode, o.said)
	}
	return o
}

// challenged requires of a 401 what RFC 9110 (11.6.1) does.
func challenged(t *testing.T, resp *http.Response) {
	t.Helper()
	if got := resp.Header.Get("WWW-Authenticate"); (got != "") != (resp.StatusCode == http.StatusUnauthorized) {
		t.Errorf("status %d has WWW-Authenticate %q", resp.StatusCode, got)
	}
}

func streamableModern(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/mcp", c.token, mcpCall(c, modernMeta), "Accept", bothForms,
		mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, mcp.MethodToolsCall, mcp.HeaderName, c.tool)
	return overHTTP(t, resp, body)
}

func streamableLegacy(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	resp, body := w.post(ctx, t, "/mcp", c.token, initialize(mcp.V20251125), "Accept", bothForms)
	session := resp.Header.Get(mcp.HeaderSessionID)
	if session == "" {
		return overHTTP(t, resp, body)
	}
	resp, body = w.post(ctx, t, "/mcp", c.token, mcpCall(c, ""), "Accept", bothForms,
		mcp.HeaderProtocolVersion, mcp.V20251125, mcp.HeaderSessionID, session)
	return overHTTP(t, resp, body)
}

func httpWithSSE(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.host+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := w.client.Do(r)
	if err != nil {
		t.Error(err)
		return outcome{}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return overHTTP(t, resp, b)
	}
	stream := bufio.NewReaderSize(resp.Body, 64<<10)
	next := func() []byte {
		for {
			line, err := stream.ReadBytes('\n')
			if err != nil {
				t.Errorf("the stream ended: %v", err)
				return []byte("{}")
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				return bytes.TrimSpace(data)
			}
		}
	}
	endpoint := string(next())
	if resp, b := w.post(ctx, t, endpoint, c.token, initialize(mcp.V20241105)); resp.StatusCode != http.StatusAccepted {
		t.Errorf("initialize was answered with %d %s", resp.StatusCode, b)
	}
	next()
	if resp, b := w.post(ctx, t, endpoint, c.token, mcpCall(c, "")); resp.StatusCode != http.StatusAccepted {
		return overHTTP(t, resp, b)
	}
	for {
		if m := readMessage(t, next()); m.answers() {
			return m.outcome(t)
		}
	}
}

func mcpOverWebSocket(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	return w.socket(ctx, t, c.token, "/ws", "mcp", func(s *socket) outcome {
		s.send(initialize(mcp.V20250618))
		if _, ok := s.next(); !ok {
			return s.closed()
		}
		s.send(mcpCall(c, ""))
		for {
			b, ok := s.next()
			if !ok {
				return s.closed()
			}
			if m := readMessage(t, b); m.answers() {
				return m.outcome(t)
			}
		}
	})
}

// socket is a WebSocket of a client.
type socket struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
	end  error
}

// socket connects, and says what came of it when that is refused.
func (w *world) socket(ctx context.Context, t *testing.T, token, path, protocol string, talk func(*socket) outcome) outcome {
	t.Helper()
	h := http.Header{"Authorization": {"Bearer " + token}}
	if parent := parentOf(ctx); parent != "" {
		h.Set("Traceparent", parent)
	}
	conn, resp, err := websocket.Dial(ctx, "ws://"+w.host+path, &websocket.DialOptions{
		HTTPClient: w.client, HTTPHeader: h, Subprotocols: []string{protocol},
	})
	if err != nil {
		challenged(t, resp)
		return byHeaders(t, resp, fmt.Sprint(resp.StatusCode))
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	return talk(&socket{t: t, ctx: ctx, conn: conn})
}

func (s *socket) send(message string) {
	_ = s.conn.Write(s.ctx, websocket.MessageText, []byte(message)) // next says if it is closed
}

func (s *socket) next() (message []byte, ok bool) {
	_, b, err := s.conn.Read(s.ctx)
	s.end = err
	return b, err == nil
}

// closed is the outcome of a connection that the edge has closed.
func (s *socket) closed() outcome {
	return outcome{said: fmt.Sprintf("closed with %d", websocket.CloseStatus(s.end))}
}

// pipe is a client of stdio, which makes one call at a time.
type pipe struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// openPipe puts an edge of its own behind stdio.
func (w *world) openPipe(t testing.TB, who local) *pipe {
	t.Helper()
	e := w.join(t, who)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	d := stdio.New(stdio.Config{Server: e.Server(), In: stdin, Out: stdout})
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.Background()) }()
	t.Cleanup(func() {
		_, _ = in.Close(), stdout.Close()
		<-ended
	})
	return &pipe{in: in, out: bufio.NewReaderSize(out, 64<<10)}
}

func overStdio(_ context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	p := w.stdio[c.token]
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := io.WriteString(p.in, mcpCall(c, modernMeta)+"\n"); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := readMessage(t, line); m.answers() {
			return m.outcome(t)
		}
	}
}
