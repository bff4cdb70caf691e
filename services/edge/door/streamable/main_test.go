package streamable_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// writeTime is long enough for a loaded machine, whose writes may stand still for a second
// or two, and short enough to wait for.
const writeTime = 3 * time.Second

func TestMain(m *testing.M) {
	door.SetTimes(writeTime, 3*writeTime/2)
	leaktest.Main(m)
}

// world is an edge with HTTP in front and a service behind it.
type world struct {
	bus  string
	edge *edge.Edge
	svc  *edgetest.Service
	http *httptest.Server
	// client follows no redirects and keeps no connections waiting.
	client *http.Client
}

func start(t testing.TB) *world {
	t.Helper()
	w := &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, w.bus))
	w.edge, w.http = w.join(t)
	w.client = w.http.Client()
	return w
}

// join adds an edge to the bus.
func (w *world) join(t testing.TB) (*edge.Edge, *httptest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Connect(t, w.bus), edge.Config{Version: "1", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.svc.Name()); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	return e, srv
}

type header = map[string]string

// absent removes a default header.
const absent = "\x00"

// modern are the headers of a modern request for method and name.
func modern(method, name string) header {
	h := header{mcp.HeaderProtocolVersion: mcp.Modern, mcp.HeaderMethod: method}
	if name != "" {
		h[mcp.HeaderName] = mcp.EncodeHeader(name)
	}
	return h
}

func merge(h, more header) header {
	h = maps.Clone(h)
	maps.Copy(h, more)
	return h
}

// request builds a POST with the headers every client sends, and h over them.
func (w *world) request(ctx context.Context, t testing.TB, url string, h header, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/mcp", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, v := range h {
		if v == absent {
			r.Header.Del(name)
			continue
		}
		r.Header[name] = lines(v) // the name unchanged
	}
	return r
}

// lines makes a header field of each line.
func lines(v string) []string { return strings.Split(v, "\n") }

// reply is a complete answer.
type reply struct {
	*http.Response
	body []byte
}

// post sends a message and reads the whole answer. A request that was refused because the
// bus stood still is sent again.
func (w *world) post(t testing.TB, h header, body string) reply {
	t.Helper()
	for {
		if r := w.do(t, w.request(t.Context(), t, w.http.URL, h, strings.NewReader(body))); !bustest.StoodStill(string(r.body)) {
			return r
		}
	}
}

func (w *world) do(t testing.TB, r *http.Request) reply {
	t.Helper()
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp, b}
}

// call makes a modern tools/call with the headers it needs.
func (w *world) call(t testing.TB, tool, arguments string) reply {
	t.Helper()
	return w.post(t, modern(mcp.MethodToolsCall, tool), edgetest.Call("1", tool, arguments))
}

func (r reply) message(t testing.TB) edgetest.Message {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Fatalf("Content-Type %q, body %s", ct, r.body)
	}
	return edgetest.Read(t, r.body)
}

// answer is the message that answers a call: as JSON, or in a stream if the call takes
// long, as every call does on a slow machine.
func (r reply) answer(t testing.TB) edgetest.Message {
	t.Helper()
	if r.Header.Get("Content-Type") != "text/event-stream" {
		return r.message(t)
	}
	var last edgetest.Message
	for e := range events(t, bytes.NewReader(r.body)) {
		last = e.Message
	}
	return last
}

// refused requires an HTTP status and a JSON-RPC error.
func (r reply) refused(t testing.TB, status, code int, reason string) edgetest.Message {
	t.Helper()
	m := r.message(t)
	if r.StatusCode != status || m.Code() != code {
		t.Fatalf("status %d, want %d, code %d; body %s", r.StatusCode, status, code, r.body)
	}
	if m.Error.Data.Reason != reason || m.Error.Data.Executed != "no" {
		t.Errorf("reason %q, want %q; executed %q", m.Error.Data.Reason, reason, m.Error.Data.Executed)
	}
	return m
}

// stream reads events as they come.
type stream struct {
	t    testing.TB
	resp *http.Response
	next chan event // closed at the end
	id   string     // id of the last event that had one
}

// event is one event of a stream; one without a message is only an id.
type event struct {
	edgetest.Message
	id, retry string
	empty     bool
}

// open sends a request that is answered by a stream.
func (w *world) open(t testing.TB, r *http.Request) *stream {
	t.Helper()
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		t.Fatalf("no stream: %d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), b)
	}
	s := &stream{t: t, resp: resp, next: make(chan event, 1024)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.next)
		for m := range events(t, resp.Body) {
			s.next <- m
		}
	}()
	t.Cleanup(func() { s.close(); <-done })
	return s
}

func (s *stream) close() { _ = s.resp.Body.Close() }

// events reads server-sent events: each at most one line of data with one
// message.
func events(t testing.TB, r io.Reader) func(func(event) bool) {
	return func(yield func(event) bool) {
		in := bufio.NewReader(r)
		for {
			var data [][]byte
			e := event{empty: true}
			for {
				line, err := in.ReadBytes('\n')
				if err != nil {
					if len(data) > 0 {
						t.Errorf("the stream ends within an event: %q", data)
					}
					return
				}
				line = bytes.TrimSuffix(line, []byte("\n"))
				if len(line) == 0 {
					break
				}
				if d, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
					data = append(data, d)
				} else if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
					e.id = string(id)
				} else if retry, ok := bytes.CutPrefix(line, []byte("retry: ")); ok {
					e.retry = string(retry)
				} else if line[0] != ':' && string(line) != "event: message" {
					t.Errorf("unexpected line %q", line)
				}
			}
			if len(data) > 1 {
				t.Errorf("an event of %d lines", len(data))
			}
			if len(data) == 1 && len(data[0]) > 0 {
				e.Message, e.empty = edgetest.Read(t, data[0]), false
			}
			if (!e.empty || e.id != "" || e.retry != "") && !yield(e) {
				return
			}
		}
	}
}

// await takes the next message, which must come.
func (s *stream) await() edgetest.Message {
	s.t.Helper()
	for {
		if e := s.event(); !e.empty {
			return e.Message
		}
	}
}

// event takes the next event, which must come.
func (s *stream) event() event {
	s.t.Helper()
	e, ok := receive(s.t, "an event of the stream", s.next)
	if !ok {
		s.t.Fatal("the stream ended")
	}
	if e.id != "" {
		s.id = e.id
	}
	return e
}

// ends requires that nothing more comes.
func (s *stream) ends() {
	s.t.Helper()
	for {
		e, ok := receive(s.t, "the end of the stream", s.next)
		if !ok {
			return
		}
		if !e.empty {
			s.t.Fatalf("one more message: %+v", e.Message)
		}
	}
}

func receive[V any](t testing.TB, what string, c <-chan V) (V, bool) {
	t.Helper()
	select {
	case v, ok := <-c:
		return v, ok
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	bustest.Eventually(t, what, ok)
}
