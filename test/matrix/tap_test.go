package matrix

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// tap sees every message between one client and the edges, on the edges' side:
// also what a client does not wait for any more.
type tap struct {
	t *testing.T

	mu       sync.Mutex
	messages []message
	begun    []*exchange // those whose answer has begun
}

// exchange is one HTTP request and its answer; over stdio there is only one.
type exchange struct {
	// edge is the index of the edge that serves it.
	edge int
	// about is the HTTP method, and the MCP method of the message.
	about string
	over  chan struct{}
}

// message is one that passed, in the order of the tap.
type message struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`

	fromServer bool
	on         *exchange
}

func (t *tap) note(x *exchange, fromServer bool, raw []byte) {
	m := message{fromServer: fromServer, on: x}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.t.Errorf("not one message: %v\n%s", err, raw)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, m)
}

// all are the messages so far that match.
func (t *tap) all(match func(m message) bool) []message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.messages), func(m message) bool { return !match(m) })
}

// answered reports whether the answer to an exchange about that has begun.
func (t *tap) answered(about string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.begun, func(x *exchange) bool { return x.about == about })
}

// await returns the first message that matches, which must have come or come.
func (t *tap) await(what string, match func(m message) bool) message {
	t.t.Helper()
	var found []message
	bustest.Eventually(t.t, what, func() bool {
		found = t.all(match)
		return len(found) > 0
	})
	return found[0]
}

// sent matches what the client sends: requests and notifications of a method.
func sent(method string) func(message) bool {
	return func(m message) bool { return !m.fromServer && m.Method == method }
}

// said matches what the server says on its own: requests and notifications.
func said(method string) func(message) bool {
	return func(m message) bool { return m.fromServer && m.Method == method }
}

// answers matches the response to a request of the other side.
func (m message) answers(r message) bool {
	return m.Method == "" && m.fromServer != r.fromServer && bytes.Equal(m.ID, r.ID)
}

// param and field are members of params and result, as written; "" for none.
func (m message) param(path ...string) string { return member(m.Params, path) }
func (m message) field(path ...string) string { return member(m.Result, path) }

func member(v jsontext.Value, path []string) string {
	for _, name := range path {
		var o map[string]jsontext.Value
		if json.Unmarshal(v, &o) != nil {
			return ""
		}
		v = o[name]
	}
	return string(v)
}

// before puts the tap before an edge's HTTP interface.
func (t *tap) before(edge int, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		x := &exchange{edge: edge, about: r.Method, over: make(chan struct{})}
		a := &answer{ResponseWriter: w, tap: t, x: x}
		defer func() {
			if !a.taken {
				close(x.over)
			}
		}()
		if len(body) > 0 {
			var m message
			_ = json.Unmarshal(body, &m) // note says what is wrong with it
			x.about += " " + m.Method
			t.note(x, false, body)
		}
		next.ServeHTTP(a, r)
	})
}

// answer is a response with the tap on it.
type answer struct {
	http.ResponseWriter
	tap  *tap
	x    *exchange
	rest []byte // the beginning of an event
	// taken: the door has taken the connection over, and writes chunks.
	taken bool
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader comes once the door serves the exchange.
func (a *answer) WriteHeader(status int) {
	a.tap.mu.Lock()
	a.tap.begun = append(a.tap.begun, a.x)
	a.tap.mu.Unlock()
	a.ResponseWriter.WriteHeader(status)
}

// Write notes first: what the client has, the tap has too.
func (a *answer) Write(b []byte) (int, error) {
	if a.Header().Get("Content-Type") != "text/event-stream" {
		if len(b) > 0 {
			a.tap.note(a.x, true, b) // doors write a response at once
		}
		return a.ResponseWriter.Write(b)
	}
	a.events(b)
	return a.ResponseWriter.Write(b)
}

// events notes those that are whole.
func (a *answer) events(b []byte) {
	a.rest = append(a.rest, b...)
	for {
		event, rest, whole := bytes.Cut(a.rest, []byte("\n\n"))
		if !whole {
			return
		}
		a.rest = rest
		if bytes.HasPrefix(event, []byte("event: endpoint\n")) {
			continue
		}
		// Events without data prime a client for coming back.
		if _, data, _ := bytes.Cut(event, []byte("data: ")); len(data) > 0 {
			a.tap.note(a.x, true, data)
		}
	}
}

// Hijack puts the tap on the connection that a door takes over for a stream that lasts.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	a.taken = true
	return &taken{Conn: conn, answer: a}, buffers, nil
}

// taken is such a connection. Its door writes one thing after the other.
type taken struct {
	net.Conn
	answer *answer
	rest   []byte // the beginning of a chunk
	over   sync.Once
}

// Write notes first, as an answer's Write does.
func (c *taken) Write(b []byte) (int, error) {
	c.rest = append(c.rest, b...)
	for {
		head, body, whole := bytes.Cut(c.rest, []byte("\r\n"))
		size, err := strconv.ParseUint(string(head), 16, 31)
		if !whole || err != nil || len(body) < int(size)+2 {
			break
		}
		c.answer.events(body[:size])
		c.rest = body[size+2:]
	}
	return c.Conn.Write(b)
}

// Close ends the exchange.
func (c *taken) Close() error {
	err := c.Conn.Close()
	c.over.Do(func() { close(c.answer.x.over) })
	return err
}

// lines makes the tap a writer of one side's lines.
func (t *tap) lines(x *exchange, fromServer bool) io.Writer {
	return &lines{tap: t, x: x, fromServer: fromServer}
}

type lines struct {
	tap        *tap
	x          *exchange
	fromServer bool
	rest       []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.rest = rest
		l.tap.note(l.x, l.fromServer, line)
	}
}
