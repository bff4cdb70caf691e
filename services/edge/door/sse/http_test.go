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

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestStreamRequest(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"accepts a stream":      {func(*http.Request) {}, http.StatusOK},
		"accepts anything":      {func(r *http.Request) { r.Header.Set("Accept", "*/*") }, http.StatusOK},
		"says nothing":          {func(r *http.Request) { r.Header.Del("Accept") }, http.StatusOK},
		"accepts JSON only":     {func(r *http.Request) { r.Header.Set("Accept", "application/json") }, http.StatusNotAcceptable},
		"a later client's POST": {func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"DELETE":                {func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
		"an evil origin":        {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"a rebound host":        {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.get(t)
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
	w := startWith(t, byName{})
	c := w.open(t, nil)
	address := strings.TrimPrefix(c.endpoint, "/messages?sessionId=")
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
		"two sessions":         {c.endpoint + "&sessionId=" + address, nil, 400, "invalid_request", "sessionId"},
		"no address":           {"/messages?sessionId=x", nil, 400, "invalid_request", "sessionId"},
		"a subject":            {"/messages?sessionId=%2A.%3E", nil, 400, "invalid_request", "sessionId"},
		"lines":                {"/messages?sessionId=a%0D%0APUB.b", nil, 400, "invalid_request", "sessionId"},
		"a long one":           {"/messages?sessionId=a." + strings.Repeat("x", 4000), nil, 400, "invalid_request", "sessionId"},
		"no such edge":         {"/messages?sessionId=AAAA.BBBB", nil, 404, "unknown_session", open},
		"no such stream":       {"/messages?sessionId=" + edge + ".BBBB", nil, 404, "unknown_session", open},
		"other credentials":    {c.endpoint, func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") }, 404, "unknown_session", open},
		"an evil origin":       {c.endpoint, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403, "forbidden", "origin"},
		"a rebound host":       {c.endpoint, func(r *http.Request) { r.Host = "evil.example" }, 403, "forbidden", "host"},
		"too large":            {c.endpoint, func(r *http.Request) { body(r, make([]byte, 960<<10+1)) }, 413, "too_large", "larger"},
		"too large, in chunks": {c.endpoint, func(r *http.Request) { body(r, make([]byte, 2<<20)); r.ContentLength = -1 }, 413, "too_large", "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range w.edges {
				r := w.message(t, at, m.endpoint, call)
				if m.change != nil {
					m.change(r)
				}
				do(t, r).refused(t, m.status, m.reason, m.says)
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
			r := w.message(t, w.edges[1], c.endpoint, call)
			m.change(r)
			if got := do(t, r); got.status != m.status || len(got.body) == 0 {
				t.Errorf("%d %s, want %d", got.status, got.body, m.status)
			}
		})
	}
	if n := w.svc.Calls.Load(); n != 0 {
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
	w := start(t)
	c := w.open(t, map[string]string{"Authorization": "Bearer secret"})
	args := `{"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("y", 400<<10) + `"}`
	message := edgetest.LegacyCall("1", "echo", args)
	message += strings.Repeat(" ", 960<<10-len(message))
	if m := c.ask(message); m.Text() != args {
		t.Errorf("came with %d bytes: %+v", len(m.Text()), m.Error)
	}
}

// A stream belongs to a principal, not to a token.
func TestM5StreamOfAPrincipal(t *testing.T) {
	t.Parallel()
	w := startWith(t, byName{})
	heard := spy(t, w.bus)
	c := w.open(t, header{"Authorization": "Bearer ada-secret-token"})
	c.lives()
	for _, other := range []header{{}, {"Authorization": "Bearer bob-secret"}, {"Authorization": "Bearer -ada-secret-token"}} {
		c.header = other
		for range w.edges {
			c.post(edgetest.LegacyCall("1", "echo", "{}")).refused(t, http.StatusNotFound, "unknown_session", "no such session")
		}
	}
	for _, same := range []string{"bearer  ada-secret-token", "Bearer ada-secret-renewed"} {
		c.header = header{"Authorization": same}
		c.lives()
	}
	bustest.Eventually(t, "the second call is heard on the bus", func() bool { return strings.Contains(heard(), `"alive 1"`) })
	if all := heard(); strings.Contains(all, "ada-secret") {
		t.Errorf("on the bus: %q", all)
	}
}

// byName authenticates by the beginning of a token, up to a hyphen.
type byName struct{}

func (byName) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	name, _, _ := strings.Cut(c.Bearer, "-")
	return gateway.Principal{Name: name}, nil
}

// byToken knows one token.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer != "good" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
	}
	return gateway.Principal{Name: "ada"}, nil
}

// A caller that the edge does not know gets no stream, and calls are made with the
// credentials of the stream.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	w := startWith(t, byToken{})
	for _, credentials := range []string{"", "Bearer bad"} {
		r := w.get(t)
		r.Header.Set("Authorization", credentials)
		do(t, r).refused(t, http.StatusUnauthorized, "unauthenticated", "no such token")
	}
	c := w.open(t, header{"Authorization": "Bearer good"})
	c.initialize(mcp.V20241105)
	c.lives()
	c.header = nil
	c.post(edgetest.LegacyCall("1", "echo", "{}")).refused(t, http.StatusUnauthorized, "unauthenticated", "no such token")
}

// A browser's page of an allowed origin may use the transport.
func TestPages(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.open(t, header{"Origin": "http://localhost:5173"})
	c.lives()
	if got := c.resp.Header.Get("Access-Control-Allow-Origin"); got != "http://localhost:5173" {
		t.Errorf("the page may not read the stream: %q", got)
	}
	r := w.message(t, w.edges[1], c.endpoint, "")
	r.Method = http.MethodOptions
	r.Header.Set("Origin", "http://localhost:5173")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "content-type")
	if got := do(t, r); got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Headers") != "content-type" {
		t.Errorf("preflight: %d %v", got.status, got.header)
	}
}

func TestStreamGone(t *testing.T) {
	t.Parallel()
	t.Run("by its client", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		c := w.open(t, nil)
		c.send(edgetest.LegacyCall("1", "hold", "{}"))
		receive(t, "the call starts", w.svc.Started)
		c.close()
		receive(t, "the call is cancelled", w.svc.Ended)
		bustest.Eventually(t, "there is no session any more", func() bool { return c.post(edgetest.Legacy("2", "ping", "")).status == http.StatusNotFound })
		for range w.edges {
			c.post(edgetest.Legacy("2", "ping", "")).refused(t, http.StatusNotFound, "unknown_session", "open /sse again")
		}
	})
	t.Run("with its edge", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		c := w.open(t, nil)
		c.lives()
		w.edges[0].conn.Close() // as a killed process leaves the bus
		c.posts = 1
		bustest.Eventually(t, "NATS has noticed", func() bool {
			return c.post(edgetest.Legacy("2", "ping", "")).status == http.StatusNotFound
		})
		c.posts = 1
		began := time.Now()
		c.post(edgetest.Legacy("2", "ping", "")).refused(t, http.StatusNotFound, "unknown_session", "open /sse again")
		if took := time.Since(began); took > bustest.Promptly {
			t.Errorf("took %v", took)
		}
		c.posts = 0
		c.post(edgetest.Legacy("2", "ping", "")).refused(t, http.StatusServiceUnavailable, "unavailable", "bus")
	})
}

// A stopping edge finishes the requests in flight, for which it still takes answers, but
// nothing new.
func TestStoppingEdge(t *testing.T) {
	t.Parallel()
	w := start(t)
	idle, c := w.open(t, nil), w.open(t, nil)
	idle.initialize(mcp.V20241105)
	c.initialize(mcp.V20241105)
	q := c.ask(edgetest.LegacyCall("1", "ask", "{}"))
	w.edges[0].edge.Server().Close()
	idle.ended()
	for _, message := range []string{edgetest.LegacyCall("2", "safe", "{}"), edgetest.Initialize(mcp.V20241105)} {
		if m := c.ask(message); m.Error == nil || m.Error.Data.Reason != "unavailable" || !strings.Contains(m.Error.Message, "connect again") {
			t.Errorf("a new request is answered with %+v", m)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`)
	if m := c.await(); m.Text() != "decline" {
		t.Errorf("answer %+v %+v", m, m.Error)
	}
	c.ended()
}

func TestIdleStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	w := start(t)
	c := w.open(t, nil)
	for range 2 {
		receive(t, "a comment", c.comments)
	}
	c.lives()
}

// A client that does not read is cut off, blocks nobody and fills nothing. Not parallel,
// because it takes the whole machine.
func TestSlowReader(t *testing.T) {
	w := start(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.edges[0].http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if err := w.get(t).Write(conn); err != nil {
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
		do(t, w.message(t, w.edges[1], endpoint, edgetest.Legacy(fmt.Sprint(i), mcp.MethodToolsCall, `"name":"flood","_meta":{"progressToken":1}`)))
	}
	bustest.Eventually(t, "a call of the slow reader starts", func() bool { return len(w.svc.Started) > 0 })
	for i := range 20 {
		// And answers that wait for room.
		do(t, w.message(t, w.edges[1], endpoint, edgetest.LegacyCall(fmt.Sprint(100+i), "echo", `{"a":"`+strings.Repeat("x", 200<<10)+`"}`)))
	}
	began := time.Now()
	other.lives()
	if took := time.Since(began); took > bustest.Promptly {
		t.Errorf("another client waits %v", took)
	}
	bustest.Eventually(t, "the stream is gone", func() bool {
		return do(t, w.message(t, w.edges[1], endpoint, edgetest.Legacy("1", "ping", ""))).status == http.StatusNotFound
	})
	// On a slow machine the client goes before the last call starts.
	bustest.Eventually(t, "the calls of the slow reader are cancelled", func() bool { return len(w.svc.Ended) == len(w.svc.Started) })
}
