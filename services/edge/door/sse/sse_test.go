package sse_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
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

// world has two edges.
type world struct{ *edgetest.World }

func start(t *testing.T, auth gateway.Authenticator) world {
	t.Helper()
	w := edgetest.Start(t, edgetest.As(auth))
	w.Join(t, edgetest.As(auth))
	return world{w}
}

// client posts to every edge in turn.
type client struct {
	*edgetest.SSE
	edges int
}

// open opens a stream at the first edge.
func (w world) open(t *testing.T, h edgetest.Header) *client {
	t.Helper()
	return &client{w.SSE(t, h), len(w.Edges)}
}

// lives requires that good calls are answered, through every edge.
func (c *client) lives() {
	c.T.Helper()
	for i := range c.edges {
		id := fmt.Sprintf(`"alive %d"`, i)
		if m := c.Ask(edgetest.LegacyCall(id, "echo", "{}")); m.Text() != "{}" || string(m.ID) != id {
			c.T.Fatalf("answer %+v %+v", m, m.Error)
		}
	}
}

// refused requires an HTTP status and a JSON-RPC error.
func refused(t *testing.T, r edgetest.Reply, status int, reason, says string) {
	t.Helper()
	if m := r.Message(t); r.StatusCode != status || m.Error == nil || m.Error.Data.Reason != reason || !strings.Contains(m.Error.Message, says) {
		t.Errorf("%d %s, want %d %s: %s", r.StatusCode, r.Bytes, status, reason, says)
	}
}

func TestStreamRequest(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"accepts a stream":      {func(*http.Request) {}, http.StatusOK},
		"accepts anything":      {func(r *http.Request) { r.Header.Set("Accept", "*/*") }, http.StatusOK},
		"says nothing":          {func(r *http.Request) { r.Header.Del("Accept") }, http.StatusOK},
		"accepts JSON only":     {func(r *http.Request) { r.Header.Set("Accept", "application/json") }, http.StatusNotAcceptable},
		"a later client's POST": {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"a page's preflight": {func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Set("Origin", "http://localhost:5173")
			r.Header.Set("Access-Control-Request-Method", "GET")
		}, http.StatusNoContent},
		"a rebound host": {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"DELETE":         {func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
		"an evil origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.Stream(t)
			c.change(r)
			resp, err := edgetest.Client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			if c.status == http.StatusMethodNotAllowed && resp.Header.Get("Allow") != http.MethodGet {
				t.Errorf("Allow: %s", resp.Header.Get("Allow"))
			}
		})
	}
}

func TestMessageRequest(t *testing.T) {
	t.Parallel()
	w := start(t, byName{})
	c := w.open(t, nil)
	address := strings.TrimPrefix(c.Endpoint, "/messages?sessionId=")
	edge, _, _ := strings.Cut(address, ".")
	call := edgetest.LegacyCall("1", "echo", "{}")
	const open = "open /sse again"
	for name, m := range map[string]struct {
		endpoint     string
		change       func(*http.Request)
		status       int
		reason, says string
	}{
		"no session":           {"/messages", nil, 400, "invalid_request", "sessionId"},
		"an empty session":     {"/messages?sessionId=", nil, 400, "invalid_request", "sessionId"},
		"two sessions":         {c.Endpoint + "&sessionId=" + address, nil, 400, "invalid_request", "sessionId"},
		"no address":           {"/messages?sessionId=x", nil, 400, "invalid_request", "sessionId"},
		"a subject":            {"/messages?sessionId=%2A.%3E", nil, 400, "invalid_request", "sessionId"},
		"lines":                {"/messages?sessionId=a%0D%0APUB.b", nil, 400, "invalid_request", "sessionId"},
		"a long one":           {"/messages?sessionId=a." + strings.Repeat("x", 4000), nil, 400, "invalid_request", "sessionId"},
		"no such edge":         {"/messages?sessionId=AAAA.BBBB", nil, 404, "unknown_session", open},
		"no such stream":       {"/messages?sessionId=" + edge + ".BBBB", nil, 404, "unknown_session", open},
		"other credentials":    {c.Endpoint, func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") }, 404, "unknown_session", open},
		"bad credentials":      {c.Endpoint, func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") }, 401, "unauthenticated", "no such token"},
		"too large":            {c.Endpoint, func(r *http.Request) { body(r, make([]byte, 960<<10+1)) }, 413, "too_large", "larger"},
		"too large, in chunks": {c.Endpoint, func(r *http.Request) { body(r, make([]byte, 2<<20)); r.ContentLength = -1 }, 413, "too_large", "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range w.Edges {
				r := at.PostTo(t, m.endpoint, nil, call)
				if m.change != nil {
					m.change(r)
				}
				refused(t, edgetest.Do(t, r), m.status, m.reason, m.says)
			}
		})
	}
	for name, m := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"GET":             {func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		"text":            {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"no type":         {func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType},
		"compressed":      {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusUnsupportedMediaType},
		"another charset": {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-16") }, http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.Edges[1].PostTo(t, c.Endpoint, nil, call)
			m.change(r)
			if got := edgetest.Do(t, r); got.StatusCode != m.status || len(got.Bytes) == 0 {
				t.Errorf("%d %s, want %d", got.StatusCode, got.Bytes, m.status)
			}
		})
	}
	if n := w.Svc.Calls.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
	}
	c.lives() // and nothing came on the stream
}

func body(r *http.Request, b []byte) {
	r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// The largest allowed message fits the bus too.
func TestLargestMessage(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.open(t, edgetest.Header{"Authorization": "Bearer secret"})
	args := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("y", 400<<10) + `"}`
	message := edgetest.LegacyCall("1", "echo", args)
	message += strings.Repeat(" ", 960<<10-len(message))
	if m := c.Ask(message); m.Text() != args {
		t.Errorf("came with %d bytes: %+v", len(m.Text()), m.Error)
	}
}

// A stream belongs to a principal, not to a token, and its tokens are not on the bus.
// test/tenants posts as everybody else.
func TestM5StreamOfAPrincipal(t *testing.T) {
	t.Parallel()
	w := start(t, byName{})
	nc, err := nats.Connect(w.Bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	heard, err := nc.SubscribeSync(">")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := w.open(t, edgetest.Header{"Authorization": "Bearer ada-secret-token"})
	c.Header = edgetest.Header{"Authorization": "Bearer bob-secret"}
	for range w.Edges {
		refused(t, c.Post(edgetest.LegacyCall("1", "echo", "{}")), http.StatusNotFound, "unknown_session", "no such session")
	}
	for _, same := range []string{"bearer  ada-secret-token", "Bearer ada-secret-renewed"} {
		c.Header = edgetest.Header{"Authorization": same}
		c.lives()
	}
	for last := false; !last; {
		msg, err := heard.NextMsg(bustest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprint(msg.Subject, msg.Header, string(msg.Data))
		if last = strings.Contains(all, `"alive 1"`); strings.Contains(all, "ada-secret") {
			t.Errorf("on the bus: %q", all)
		}
	}
}

// byName authenticates by the beginning of a token, up to a hyphen.
type byName struct{}

func (byName) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	name, _, _ := strings.Cut(c.Bearer, "-")
	if name == "nobody" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
	}
	return gateway.Principal{Name: name}, nil
}

func TestStreamGone(t *testing.T) {
	t.Parallel()
	t.Run("by its client", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		c := w.open(t, nil)
		c.Send(edgetest.LegacyCall("1", "hold", "{}"))
		w.Svc.Running(t)
		c.Close()
		w.Svc.Over(t)
		bustest.Eventually(t, "there is no session any more", func() bool { return c.Post(edgetest.Legacy("2", "ping", "")).StatusCode == http.StatusNotFound })
		for range w.Edges {
			refused(t, c.Post(edgetest.Legacy("2", "ping", "")), http.StatusNotFound, "unknown_session", "open /sse again")
		}
	})
	t.Run("with its edge", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		c := w.open(t, nil)
		c.lives()
		w.Edges[0].Conn.Close() // as a killed process leaves the bus
		c.Posts = 1
		bustest.Eventually(t, "NATS has noticed", func() bool {
			return c.Post(edgetest.Legacy("2", "ping", "")).StatusCode == http.StatusNotFound
		})
		c.Posts = 1
		began := time.Now()
		refused(t, c.Post(edgetest.Legacy("2", "ping", "")), http.StatusNotFound, "unknown_session", "open /sse again")
		if took := time.Since(began); took > bustest.Promptly {
			t.Errorf("took %v", took)
		}
		c.Posts = 0
		refused(t, c.Post(edgetest.Legacy("2", "ping", "")), http.StatusServiceUnavailable, "unavailable", "bus")
	})
}

// A stopping edge finishes the requests in flight, for which it still takes answers, but
// nothing new.
func TestStoppingEdge(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	idle, c := w.open(t, nil), w.open(t, nil)
	idle.Greet(mcp.V20241105)
	c.Greet(mcp.V20241105)
	q := c.Ask(edgetest.LegacyCall("1", "ask", "{}"))
	w.Edges[0].Server().Close()
	idle.Ended()
	for _, message := range []string{edgetest.LegacyCall("2", "safe", "{}"), edgetest.Initialize(mcp.V20241105)} {
		if m := c.Ask(message); m.Error == nil || m.Error.Data.Reason != "unavailable" || !strings.Contains(m.Error.Message, "connect again") {
			t.Errorf("a new request is answered with %+v", m)
		}
	}
	c.Reply(q, `"result":{"action":"decline"}`)
	if m := c.Await(); m.Text() != "decline" {
		t.Errorf("answer %+v %+v", m, m.Error)
	}
	c.Ended()
}

// A client that does not read is cut off, blocks nobody and fills nothing. Not parallel,
// because it takes the whole machine.
func TestSlowReader(t *testing.T) {
	w := start(t, nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.Edges[0].HTTP.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if err := w.Stream(t).Write(conn); err != nil {
		t.Fatal(err)
	}
	var head []byte
	for !bytes.Contains(head, []byte("event: endpoint\ndata: ")) || !bytes.HasSuffix(head, []byte("\n\n")) {
		b := make([]byte, 1)
		if _, err := conn.Read(b); err != nil {
			t.Fatal(err)
		}
		head = append(head, b...)
	}
	_, endpoint, _ := strings.Cut(string(head), "data: ")
	endpoint = strings.TrimSpace(endpoint)
	other := w.open(t, nil)
	for i := range 8 {
		edgetest.Do(t, w.Edges[1].PostTo(t, endpoint, nil, edgetest.Legacy(fmt.Sprint(i), mcp.MethodToolsCall, `"name":"flood","_meta":{"progressToken":1}`)))
	}
	bustest.Eventually(t, "a call of the slow reader starts", func() bool { return len(w.Svc.Started) > 0 })
	for i := range 20 {
		// And answers that wait for room.
		edgetest.Do(t, w.Edges[1].PostTo(t, endpoint, nil, edgetest.LegacyCall(fmt.Sprint(100+i), "echo", `{"a":"`+strings.Repeat("x", 200<<10)+`"}`)))
	}
	began := time.Now()
	other.lives()
	if took := time.Since(began); took > bustest.Promptly {
		t.Errorf("another client waits %v", took)
	}
	bustest.Eventually(t, "the stream is gone", func() bool {
		return edgetest.Do(t, w.Edges[1].PostTo(t, endpoint, nil, edgetest.Legacy("1", "ping", ""))).StatusCode == http.StatusNotFound
	})
	// On a slow machine the client goes before the last call starts.
	bustest.Eventually(t, "the calls of the slow reader are cancelled", func() bool { return len(w.Svc.Ended) == len(w.Svc.Started) })
}

// Messages posted one after the other are handled in that order: each cancellation finds
// the request before it.
func TestOrderOfPosts(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.open(t, nil)
	c.Greet(mcp.V20241105)
	for i := range 50 {
		id := fmt.Sprint(100 + i)
		c.Send(edgetest.LegacyCall(id, "hold", "{}"), edgetest.Cancel(id))
	}
	c.lives()
	bustest.Eventually(t, "no call is held", func() bool { return len(w.Svc.Started) == len(w.Svc.Ended) })
}

func TestVersions(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, version := range []string{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := w.open(t, nil)
			c.Greet(version)
			// Which of the two it is depends on the version.
			m := c.Ask(edgetest.LegacyCall("1", "strict", `{"text":1}`))
			if asResult := m.Field("isError") == "true"; asResult != (version >= mcp.V20251125) {
				t.Errorf("answer %+v", m)
			}
			c.Send("[" + edgetest.LegacyCall("1", "echo", "{}") + "," + edgetest.Legacy("2", "ping", "") + "]")
			batch := c.Raw()
			if isBatch := strings.HasPrefix(string(batch), "["); isBatch != (version == mcp.V20250326) {
				t.Errorf("a batch is answered with %s", batch)
			}
			c.lives()
		})
	}
	t.Run("one that is not known", func(t *testing.T) {
		t.Parallel()
		c := w.open(t, nil)
		for _, version := range []string{"1900-01-01", mcp.Modern} {
			if m := c.Ask(edgetest.Initialize(version)); m.Field("protocolVersion") != `"`+mcp.LegacyLatest+`"` {
				t.Errorf("%s: %+v", version, m)
			}
		}
	})
	t.Run("2026-07-28 never had this transport", func(t *testing.T) {
		t.Parallel()
		c := w.open(t, nil)
		for _, message := range []string{edgetest.Call("1", "echo", "{}"), edgetest.Request("1", mcp.MethodDiscover, ""), edgetest.Request("1", mcp.MethodListen, `"notifications":{}`), edgetest.Legacy("1", mcp.MethodDiscover, "")} {
			m := c.Ask(message)
			if m.Code() != mcp.CodeUnsupportedVersion || string(m.ID) != "1" {
				t.Fatalf("answer %+v", m)
			}
			if got := strings.Join(m.Error.Data.Supported, " "); got != "2025-11-25 2025-06-18 2025-03-26 2024-11-05" || m.Error.Data.Requested != mcp.Modern {
				t.Errorf("supported: %s; requested: %s", got, m.Error.Data.Requested)
			}
		}
		c.lives()
	})
}
