package sse_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// writeTime is long enough for a loaded machine, whose writes may stand still for a second
// or two, and short enough to wait for.
const writeTime = 3 * time.Second

func TestMain(m *testing.M) {
	door.SetTimes(writeTime, 3*writeTime/2)
	leaktest.Main(m)
}

// world is two edges with HTTP in front and a service behind.
type world struct {
	bus   string
	svc   *edgetest.Service
	auth  gateway.Authenticator
	bytes int64 // budget of results, for edges that join from now on
	edges []place
}

type place struct {
	edge *edge.Edge
	conn *bus.Conn
	http *httptest.Server
}

func start(t *testing.T) *world {
	t.Helper()
	return startWith(t, nil)
}

func startWith(t *testing.T, auth gateway.Authenticator) *world {
	t.Helper()
	w := &world{bus: bustest.Server(t), svc: edgetest.New("svc"), auth: auth}
	addAsking(w.svc)
	w.svc.Start(t, bustest.Connect(t, w.bus))
	w.join(t)
	w.join(t)
	return w
}

// join adds an edge to the bus.
func (w *world) join(t *testing.T) place {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	conn := bustest.Connect(t, w.bus)
	e, err := edge.New(ctx, conn, edge.Config{Version: "1", Authenticator: w.auth, ResultBytes: w.bytes, Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.svc.Name()); err != nil {
		t.Fatal(err)
	}
	p := place{edge: e, conn: conn, http: httptest.NewServer(e.Handler(door.Guard{Loopback: true}))}
	t.Cleanup(p.http.Close)
	w.edges = append(w.edges, p)
	return p
}

type header = map[string]string

// client is a client of the transport, whose posts go to every edge in turn.
type client struct {
	t        *testing.T
	w        *world
	header   header
	resp     *http.Response
	endpoint string
	next     chan string // the events of the stream, closed at its end
	comments chan string
	posts    int
}

// open opens a stream at the first edge.
func (w *world) open(t *testing.T, h header) *client {
	t.Helper()
	c := &client{t: t, w: w, header: h, next: make(chan string, 4096), comments: make(chan string, 64)}
	r := w.get(t)
	for name, v := range h {
		r.Header.Set(name, v)
	}
	resp, err := edgetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	c.resp = resp
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("no stream: %d %v", resp.StatusCode, resp.Header)
	}
	in := bufio.NewReader(resp.Body)
	name, data := c.event(in)
	if name != "endpoint" || !strings.HasPrefix(data, "/messages?sessionId=") {
		t.Fatalf("the first event is %s: %s", name, data)
	}
	c.endpoint = data
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(c.next)
		for {
			name, data := c.event(in)
			if name == "" {
				return
			}
			if name != "message" {
				t.Errorf("event %s: %s", name, data)
			}
			c.next <- data
		}
	}()
	t.Cleanup(func() { c.close(); <-done })
	return c
}

// event reads an event of one line, an empty name at the end.
func (c *client) event(in *bufio.Reader) (name, data string) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if name != "" {
				c.t.Errorf("the stream ends within an event: %s %s", name, data)
			}
			return "", ""
		}
		line = strings.TrimSuffix(line, "\n")
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && name != "":
			return name, data
		case line == "":
		case line == ":":
			c.comments <- line
		case field == "event" && name == "":
			name = value
		case field == "data" && name != "" && data == "":
			data = value
		default:
			c.t.Errorf("unexpected line %q", line)
		}
	}
}

func (c *client) close() { _ = c.resp.Body.Close() }

func (w *world) get(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.edges[0].http.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	return r
}

// reply is a complete answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func do(t *testing.T, r *http.Request) reply {
	t.Helper()
	resp, err := edgetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, b}
}

// refused requires an HTTP status and a JSON-RPC error.
func (r reply) refused(t *testing.T, status int, reason, says string) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %s, want %d", r.status, r.header, r.body, status)
	}
	if m := edgetest.Read(t, r.body); m.Error == nil || m.Error.Data.Reason != reason || !strings.Contains(m.Error.Message, says) {
		t.Errorf("%s, want %s: %s", r.body, reason, says)
	}
}

// message builds a POST to an edge.
func (w *world) message(t *testing.T, at place, endpoint, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.http.URL+endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// post posts at the edge whose turn it is.
func (c *client) post(body string) reply {
	c.t.Helper()
	at := c.w.edges[c.posts%len(c.w.edges)]
	c.posts++
	r := c.w.message(c.t, at, c.endpoint, body)
	for name, v := range c.header {
		r.Header.Set(name, v)
	}
	return do(c.t, r)
}

// send posts messages that must be taken.
func (c *client) send(messages ...string) {
	c.t.Helper()
	for _, m := range messages {
		if r := c.post(m); r.status != http.StatusAccepted || len(r.body) > 0 {
			c.t.Fatalf("%d %s", r.status, r.body)
		}
	}
}

// await takes the next message of the stream.
func (c *client) await() edgetest.Message {
	c.t.Helper()
	return edgetest.Read(c.t, []byte(c.data()))
}

// data takes the next event of the stream.
func (c *client) data() string {
	c.t.Helper()
	data, ok := receive(c.t, "a message of the stream", c.next)
	if !ok {
		c.t.Fatal("the stream ended")
	}
	return data
}

// ask posts a request and takes its answer, which must be the next message.
func (c *client) ask(message string) edgetest.Message {
	c.t.Helper()
	c.send(message)
	return c.await()
}

// lives requires that good calls are answered, through every edge.
func (c *client) lives() {
	c.t.Helper()
	for i := range c.w.edges {
		id := fmt.Sprintf(`"alive %d"`, i)
		if m := c.ask(edgetest.LegacyCall(id, "echo", "{}")); m.Text() != "{}" || string(m.ID) != id {
			c.t.Fatalf("answer %+v %+v", m, m.Error)
		}
	}
}

// initialize shakes hands as a client that can do everything.
func (c *client) initialize(version string) {
	c.t.Helper()
	m := c.ask(edgetest.Legacy("0", mcp.MethodInitialize, `"protocolVersion":"`+version+`","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"test","version":"1"}`))
	if m.Field("protocolVersion") != `"`+version+`"` || m.Field("serverInfo", "name") != `"busbar"` {
		c.t.Fatalf("initialize: %+v", m)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// ended requires that nothing more comes.
func (c *client) ended() {
	c.t.Helper()
	if m, ok := receive(c.t, "the end of the stream", c.next); ok {
		c.t.Fatalf("one more message: %s", m)
	}
}

// spy records everything on the bus. stop ends that and returns it all.
func spy(t *testing.T, url string) func() string {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var mu sync.Mutex
	var all strings.Builder
	_, err = nc.Subscribe(">", func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&all, "%s %v %s\n", msg.Subject, msg.Header, msg.Data)
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

func receive[V any](t *testing.T, what string, from <-chan V) (V, bool) {
	t.Helper()
	select {
	case v, ok := <-from:
		return v, ok
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}
