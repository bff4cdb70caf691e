package edgetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
)

// Conversation is a client of MCP at some door. Whatever the door, the client sends
// messages, and reads all messages of the server.
type Conversation struct {
	T testing.TB
	// Out are the messages of the server, closed at their end.
	Out  chan []byte
	send func(message string)
}

// Doors are the doors for MCP, each with a client of it.
var Doors = map[string]func(t testing.TB, w *World) *Conversation{
	"streamable": func(t testing.TB, w *World) *Conversation { return w.streamable(t) },
	"sse":        func(t testing.TB, w *World) *Conversation { return w.SSE(t, nil).Conversation },
	"stdio":      func(t testing.TB, w *World) *Conversation { return w.Pipe(t, nil).Conversation },
	"websocket": func(t testing.TB, w *World) *Conversation {
		return Dial(t, w.HTTP.URL+"/ws", nil, "mcp").Conversation(t)
	},
}

// Send sends messages.
func (c *Conversation) Send(messages ...string) {
	c.T.Helper()
	for _, m := range messages {
		c.send(m)
	}
}

// Await takes the next message, which must come.
func (c *Conversation) Await() Message {
	c.T.Helper()
	return Read(c.T, c.Raw())
}

// Raw is the next message as it came.
func (c *Conversation) Raw() []byte {
	c.T.Helper()
	b, ok := Next(c.T, "a message of the server", c.Out)
	if !ok {
		c.T.Fatal("the server says nothing more")
	}
	return b
}

// Ask sends a request and takes its answer, which must be the next message.
func (c *Conversation) Ask(message string) Message {
	c.T.Helper()
	c.Send(message)
	return c.Await()
}

// Greet shakes hands as a client that can do everything.
func (c *Conversation) Greet(version string) {
	c.T.Helper()
	m := c.Ask(strings.Replace(Initialize(version), `"capabilities":{}`, `"capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`, 1))
	if m.Field("protocolVersion") != `"`+version+`"` || m.Field("serverInfo", "name") != `"busbar"` {
		c.T.Fatalf("initialize: %+v %s", m, m.Result)
	}
	c.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Reply answers a question of the server.
func (c *Conversation) Reply(question Message, rest string) {
	c.T.Helper()
	c.Send(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,` + rest + `}`)
}

// Cancel is a cancellation.
func Cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`
}

// Lives requires that the next message answers a good call.
func (c *Conversation) Lives() {
	c.T.Helper()
	if m := c.Ask(LegacyCall(`"alive"`, "echo", "{}")); m.Text() != "{}" || string(m.ID) != `"alive"` {
		c.T.Fatalf("answer %+v %+v", m, m.Error)
	}
}

// Ended requires that nothing more comes.
func (c *Conversation) Ended() {
	c.T.Helper()
	if m, ok := Next(c.T, "the end", c.Out); ok {
		c.T.Fatalf("one more message: %s", m)
	}
}

// streamable posts each message, in turn at the edges, and reads each response. With a
// session it also has the stream of GET.
func (w *World) streamable(t testing.TB) *Conversation {
	c, session, posts := &Conversation{T: t, Out: make(chan []byte, 4096)}, Header{}, 0
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	read := func(r io.Reader) {
		for e := range rawEvents(t, r) {
			if e["data"] != "" {
				c.Out <- []byte(e["data"])
			}
		}
	}
	c.send = func(message string) {
		t.Helper()
		h := session
		m, err := mcp.Parse([]byte(message), mcp.DefaultLimits())
		if modern := err == nil && m.P.ProtocolVersion == mcp.Modern; modern {
			h = Modern(m.Method, m.P.Name+m.P.URI+m.P.TaskID)
		}
		e := w.Edges[posts%len(w.Edges)]
		posts++
		exchange := func() Header {
			resp, err := Client.Do(e.Request(t, http.MethodPost, h, strings.NewReader(message)))
			if err != nil {
				if t.Context().Err() == nil {
					t.Error(err)
				}
				return nil
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				read(resp.Body)
			} else if b, err := io.ReadAll(resp.Body); err == nil && len(b) > 0 {
				c.Out <- b
			}
			return Header{mcp.HeaderSessionID: resp.Header.Get(mcp.HeaderSessionID)}
		}
		if err == nil && m.Kind == mcp.Request && m.Method != mcp.MethodInitialize {
			reading.Go(func() { exchange() })
			return
		}
		if got := exchange(); got[mcp.HeaderSessionID] != "" {
			session = got
			resp, err := Client.Do(e.Since(t, session, ""))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			reading.Go(func() { read(resp.Body) })
		}
	}
	return c
}

// SSE is a client of HTTP with SSE. It posts to every edge in turn.
type SSE struct {
	*Conversation
	w        *World
	Header   Header
	Resp     *http.Response
	Endpoint string
	Comments chan string
	Posts    int
}

// Stream is the request for a stream at the first edge.
func (w *World) Stream(t testing.TB) *http.Request {
	t.Helper()
	r := w.Request(t, http.MethodGet, Header{"Content-Type": Absent, "Accept": "text/event-stream"}, nil)
	r.URL.Path = "/sse"
	return r
}

// SSE opens a stream at the first edge.
func (w *World) SSE(t testing.TB, h Header) *SSE {
	t.Helper()
	c := &SSE{Conversation: &Conversation{T: t, Out: make(chan []byte, 4096)}, w: w, Header: h, Comments: make(chan string, 64)}
	r := w.Stream(t)
	for name, v := range h {
		r.Header.Set(name, v)
	}
	var err error
	if c.Resp, err = Client.Do(r); err != nil {
		t.Fatal(err)
	}
	if c.Resp.StatusCode != http.StatusOK || c.Resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("no stream: %d %v", c.Resp.StatusCode, c.Resp.Header)
	}
	endpoint, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.Out)
		for e := range rawEvents(t, c.Resp.Body) {
			if comment, ok := e[""]; ok {
				c.Comments <- comment
			}
			switch e["event"] {
			case "endpoint":
				endpoint <- e["data"]
			case "message":
				c.Out <- []byte(e["data"])
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	if c.Endpoint = Receive(t, "the endpoint", endpoint); !strings.HasPrefix(c.Endpoint, "/messages?sessionId=") {
		t.Fatalf("the endpoint is %s", c.Endpoint)
	}
	c.send = func(message string) {
		t.Helper()
		if r := c.Post(message); r.StatusCode != http.StatusAccepted || len(r.Bytes) > 0 {
			t.Fatalf("%d %s", r.StatusCode, r.Bytes)
		}
	}
	return c
}

// Close hangs up.
func (c *SSE) Close() { _ = c.Resp.Body.Close() }

// Post posts at the edge whose turn it is.
func (c *SSE) Post(body string) Reply {
	c.T.Helper()
	at := c.w.Edges[c.Posts%len(c.w.Edges)]
	c.Posts++
	return Do(c.T, at.PostTo(c.T, c.Endpoint, c.Header, body))
}

// PostTo is a POST of a message to an endpoint.
func (e *Edge) PostTo(t testing.TB, endpoint string, h Header, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.HTTP.URL+endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, v := range h {
		r.Header.Set(name, v)
	}
	return r
}

// Pipe is a client that started a server as its child.
type Pipe struct {
	*Conversation
	In     *io.PipeWriter
	Stdout *io.PipeReader
	Stop   context.CancelFunc
	Done   chan error // of Run
}

// ErrBroken is the error of a pipe that a test breaks.
var ErrBroken = errors.New("the pipe is broken")

// Pipe starts a server at the first edge, and reads what it says.
func (w *World) Pipe(t testing.TB, change func(*stdio.Config)) *Pipe {
	t.Helper()
	c := w.Launch(t, change)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.Out)
		for lines := bufio.NewReader(c.Stdout); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				if len(line) > 0 {
					t.Errorf("output ends within a line: %q", line)
				}
				return
			}
			c.Out <- bytes.TrimSuffix(line, []byte("\n"))
		}
	}()
	t.Cleanup(func() {
		_ = c.In.Close()
		c.Stop()
		_ = c.Stdout.Close()
		<-read
	})
	return c
}

// Launch is Pipe without a reader of the output.
func (w *World) Launch(t testing.TB, change func(*stdio.Config)) *Pipe {
	t.Helper()
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	cfg := stdio.Config{Server: w.Server(), In: stdin, Out: out}
	if change != nil {
		change(&cfg)
	}
	c := &Pipe{Conversation: &Conversation{T: t, Out: make(chan []byte, 4096)}, In: in, Stdout: stdout, Done: make(chan error, 1)}
	c.send = func(line string) {
		t.Helper()
		if _, err := in.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	var running context.Context
	running, c.Stop = context.WithCancel(context.Background())
	go func() {
		err := stdio.New(cfg).Run(running)
		_ = out.Close()
		c.Done <- err
	}()
	t.Cleanup(func() { c.Stop(); _ = in.Close() })
	return c
}

// Finished takes Run's result.
func (c *Pipe) Finished() error {
	c.T.Helper()
	return Receive(c.T, "the end of Run", c.Done)
}

// Socket is a WebSocket.
type Socket struct {
	*websocket.Conn
	t testing.TB
}

// Dial opens a WebSocket.
func Dial(t testing.TB, url string, h Header, protocols ...string) *Socket {
	t.Helper()
	header := http.Header{}
	for name, v := range h {
		header.Set(name, v)
	}
	c, resp, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: header, CompressionMode: websocket.CompressionContextTakeover})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("extensions: %v", resp.Header)
	}
	c.SetReadLimit(32 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return &Socket{c, t}
}

// Conversation speaks MCP. It reads all the time, so that pings are answered too.
func (s *Socket) Conversation(t testing.TB) *Conversation {
	return &Conversation{T: t, send: s.Send, Out: s.Texts()}
}

// Texts are the messages that come, read all the time.
func (s *Socket) Texts() chan []byte {
	out := make(chan []byte, 4096)
	go func() {
		defer close(out)
		for {
			_, b, err := s.Read(context.Background())
			if err != nil {
				return
			}
			out <- b
		}
	}()
	return out
}

// Send sends a text.
func (s *Socket) Send(text string) {
	s.t.Helper()
	if err := s.Write(s.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// Next takes the next text, which must come.
func (s *Socket) Next() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	_, b, err := s.Read(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// Expect requires the next text.
func (s *Socket) Expect(want string) {
	s.t.Helper()
	if got := s.Next(); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Closed requires that the server closes with a code, whatever it sends before.
func (s *Socket) Closed(code websocket.StatusCode) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), bustest.Patience)
	defer cancel()
	for {
		if _, _, err := s.Read(ctx); err != nil {
			if got := websocket.CloseStatus(err); got != code {
				s.t.Errorf("closed with %v, want %v: %v", got, code, err)
			}
			return
		}
	}
}

// Running requires that a call of the service starts.
func (s *Service) Running(t testing.TB) {
	t.Helper()
	Receive(t, fmt.Sprintf("a call of %s starts", s.Name()), s.Started)
}

// Over requires that the context of a handler ends.
func (s *Service) Over(t testing.TB) {
	t.Helper()
	Receive(t, fmt.Sprintf("a handler of %s ends", s.Name()), s.Ended)
}
