package edgetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Header are headers of a request. A line break stands between two fields of one name.
type Header = map[string]string

// Absent removes a header that every client sends.
const Absent = "\x00"

// Modern are the headers of a modern request for a method and a name.
func Modern(method, name string) Header {
	h := Header{mcp.HeaderProtocolVersion: mcp.Modern, mcp.HeaderMethod: method}
	if name != "" {
		h[mcp.HeaderName] = mcp.EncodeHeader(name)
	}
	return h
}

// With is h with more headers, or others.
func With(h, more Header) Header {
	h = maps.Clone(h)
	maps.Copy(h, more)
	return h
}

// Request is a request to /mcp with the headers that every client sends, and h over them.
func (e *Edge) Request(t testing.TB, method string, h Header, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, e.HTTP.URL+"/mcp", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, v := range h {
		if r.Header[name] = strings.Split(v, "\n"); v == Absent { // the name unchanged
			delete(r.Header, name)
		}
	}
	return r
}

// Reply is a whole answer.
type Reply struct {
	*http.Response
	Bytes []byte
}

// Do makes a request and reads the whole answer.
func Do(t testing.TB, r *http.Request) Reply {
	t.Helper()
	resp, err := Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{resp, b}
}

// Post sends a message. If it is refused because the bus stood still, it is sent again.
func (e *Edge) Post(t testing.TB, h Header, body string) Reply {
	t.Helper()
	for {
		if r := Do(t, e.Request(t, http.MethodPost, h, strings.NewReader(body))); !bustest.StoodStill(string(r.Bytes)) {
			return r
		}
	}
}

// Ask makes a modern request for a name; params are the members besides _meta.
func (e *Edge) Ask(t testing.TB, method, name, params string) Reply {
	t.Helper()
	return e.Post(t, Modern(method, name), Request("1", method, params))
}

// Call makes a modern tools/call.
func (e *Edge) Call(t testing.TB, tool, arguments string) Reply {
	t.Helper()
	return e.Ask(t, mcp.MethodToolsCall, tool, `"name":"`+tool+`","arguments":`+arguments)
}

// Initialize opens a session of a version, with capabilities, and returns its headers.
func (e *Edge) Initialize(t testing.TB, version, capabilities string) Header {
	t.Helper()
	r := e.Post(t, Header{}, strings.Replace(Initialize(version), `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	m := r.Message(t)
	id := r.Header.Get(mcp.HeaderSessionID)
	if r.StatusCode != http.StatusOK || m.Error != nil || id == "" {
		t.Fatalf("status %d, session %q: %s", r.StatusCode, id, r.Bytes)
	}
	return Header{mcp.HeaderSessionID: id, mcp.HeaderProtocolVersion: strings.Trim(m.Field("protocolVersion"), `"`)}
}

// Message is the answer, which must be JSON.
func (r Reply) Message(t testing.TB) Message {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Fatalf("Content-Type %q, body %s", ct, r.Bytes)
	}
	return Read(t, r.Bytes)
}

// Answer is the answer as JSON, or as a stream if the call takes long, as every call does
// on a slow machine.
func (r Reply) Answer(t testing.TB) (last Message) {
	t.Helper()
	if r.Header.Get("Content-Type") != "text/event-stream" {
		return r.Message(t)
	}
	for e := range Events(t, bytes.NewReader(r.Bytes)) {
		last = e.Message
	}
	return last
}

// Refused requires an HTTP status and a JSON-RPC error of a call that did not run.
func (r Reply) Refused(t testing.TB, status, code int, reason string) Message {
	t.Helper()
	m := r.Message(t)
	if r.StatusCode != status || m.Code() != code || m.Error.Data.Reason != reason || m.Error.Data.Executed != "no" {
		t.Fatalf("status %d, code %d, want %d, %d, %s: %.500s", r.StatusCode, m.Code(), status, code, reason, r.Bytes)
	}
	return m
}

// Event is an event of a stream; an empty one has no message.
type Event struct {
	Message
	ID, Retry, Name string
	Empty           bool
}

// Events reads server-sent events, each with at most one message on one line.
func Events(t testing.TB, r io.Reader) func(func(Event) bool) {
	return func(yield func(Event) bool) {
		for raw := range rawEvents(t, r) {
			e := Event{ID: raw["id"], Retry: raw["retry"], Name: raw["event"], Empty: raw["data"] == ""}
			if !e.Empty {
				e.Message = Read(t, []byte(raw["data"]))
			}
			if (!e.Empty || e.ID != "" || e.Retry != "") && !yield(e) {
				return
			}
		}
	}
}

// rawEvents reads events as their fields; a comment is an event with the field "".
func rawEvents(t testing.TB, r io.Reader) func(func(map[string]string) bool) {
	return func(yield func(map[string]string) bool) {
		in, fields := bufio.NewReader(r), map[string]string{}
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				if fields["data"] != "" {
					t.Errorf("the stream ends within an event: %v", fields)
				}
				return
			}
			if line == "\n" {
				if len(fields) > 0 && !yield(fields) {
					return
				}
				fields = map[string]string{}
				continue
			}
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			_, twice := fields[name]
			if known := name == "" || name == "data" || name == "id" || name == "event" || name == "retry"; !ok || twice || !known {
				t.Errorf("unexpected line %q", line)
			}
			fields[name] = strings.TrimPrefix(value, " ")
		}
	}
}

// Stream reads events as they come.
type Stream struct {
	t    testing.TB
	Resp *http.Response
	Next chan Event // closed at the end
	ID   string     // of the last event that had one
}

// OpenStream makes a request that is answered by a stream.
func OpenStream(t testing.TB, r *http.Request) *Stream {
	t.Helper()
	resp, err := Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		t.Fatalf("no stream: %d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), b)
	}
	s, done := &Stream{t: t, Resp: resp, Next: make(chan Event, 1024)}, make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.Next)
		for e := range Events(t, resp.Body) {
			s.Next <- e
		}
	}()
	t.Cleanup(func() { s.Close(); <-done })
	return s
}

// Open posts a message that is answered by a stream.
func (e *Edge) Open(t testing.TB, h Header, body string) *Stream {
	t.Helper()
	return OpenStream(t, e.Request(t, http.MethodPost, h, strings.NewReader(body)))
}

// Get opens a legacy client's stream, or comes back to one after the event since.
func (e *Edge) Get(t testing.TB, h Header, since string) *Stream {
	t.Helper()
	return OpenStream(t, e.Since(t, h, since))
}

// Since is the request of Get.
func (e *Edge) Since(t testing.TB, h Header, since string) *http.Request {
	t.Helper()
	if since != "" {
		h = With(h, Header{"Last-Event-Id": since})
	}
	return e.Request(t, http.MethodGet, h, nil)
}

// Listen opens a modern stream of changes, and requires its acknowledgement.
func (e *Edge) Listen(t testing.TB, id, filter string) (*Stream, Message) {
	t.Helper()
	s := e.Open(t, Modern(mcp.MethodListen, ""), Listen(id, filter))
	m := s.Await()
	if m.Method != mcp.NotifyAcknowledged || m.Param("_meta", mcp.MetaSubscriptionID) != id {
		t.Fatalf("first came %+v", m)
	}
	return s, m
}

// Close hangs up.
func (s *Stream) Close() { _ = s.Resp.Body.Close() }

// Event takes the next event, which must come.
func (s *Stream) Event() Event {
	s.t.Helper()
	e, ok := Next(s.t, "an event of the stream", s.Next)
	if !ok {
		s.t.Fatal("the stream ended")
	}
	if e.ID != "" {
		s.ID = e.ID
	}
	return e
}

// Await takes the next message, which must come.
func (s *Stream) Await() Message {
	s.t.Helper()
	for {
		if e := s.Event(); !e.Empty {
			return e.Message
		}
	}
}

// Ends requires that no message comes any more.
func (s *Stream) Ends() {
	s.t.Helper()
	for {
		e, ok := Next(s.t, "the end of the stream", s.Next)
		if !ok {
			return
		}
		if !e.Empty {
			s.t.Fatalf("one more message: %+v", e.Message)
		}
	}
}

// Progress requires progress next, under the token p.
func (s *Stream) Progress(want int) {
	s.t.Helper()
	if m := s.Await(); m.Method != mcp.NotifyProgress || m.Param("progress") != fmt.Sprint(want) || m.Param("progressToken") != `"p"` {
		s.t.Fatalf("want progress %d, got %+v %s", want, m, m.Params)
	}
}

// Result requires a result next, and then the end.
func (s *Stream) Result(id, text string) {
	s.t.Helper()
	if m := s.Await(); string(m.ID) != id || m.Text() != text {
		s.t.Fatalf("want result %q of %s, got %+v %s", text, id, m, m.Result)
	}
	s.Ends()
}
