package streamable_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// asks is a modern call with more members in _meta.
func asks(id, tool, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `",` + edgetest.Meta(more) + `}}`
}

func TestProgressMakesAStream(t *testing.T) {
	t.Parallel()
	w := start(t)
	call := modern(mcp.MethodToolsCall, "progress")
	old := w.initialize(t, mcp.V20250618)
	legacy := edgetest.Legacy("1", "tools/call", `"name":"progress","_meta":{"progressToken":"tök"}`)
	for name, c := range map[string]struct {
		header header
		body   string
		want   string // methods in order, and the result
	}{
		"nothing asked for":      {call, asks("1", "progress", `"x":1`), "result"},
		"progress":               {call, asks("1", "progress", `"progressToken":"tök"`), "progress progress result"},
		"progress, number token": {call, asks("1", "progress", `"progressToken":0`), "progress progress result"},
		"errors":                 {call, asks("1", "progress", `"`+mcp.MetaLogLevel+`":"error"`), "message result"},
		"all logs":               {call, asks("1", "progress", `"`+mcp.MetaLogLevel+`":"debug"`), "message message result"},
		"both":                   {call, asks("1", "progress", `"progressToken":1,"`+mcp.MetaLogLevel+`":"debug"`), "progress progress message message result"},
		"neither, JSON only":     {merge(call, header{"Accept": "application/json"}), asks("1", "progress", `"progressToken":1`), "result"},
		"stream without events":  {merge(call, header{"Accept": "text/event-stream"}), asks("1", "progress", `"x":1`), "result"},
		"a stream first":         {merge(call, header{"Accept": "text/event-stream, application/json"}), asks("1", "progress", `"x":1`), "result"},
		"legacy":                 {old, legacy, "progress progress message result"},
		"legacy, JSON only":      {merge(old, header{"Accept": "application/json"}), legacy, "result"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.post(t, c.header, c.body)
			var got []string
			take := func(m edgetest.Message) {
				switch {
				case m.Result != nil:
					got = append(got, "result")
					if m.Text() != "done" || string(m.ID) != "1" {
						t.Errorf("answer %+v", m)
					}
				case m.Method == mcp.NotifyProgress:
					got = append(got, "progress")
					if p := m.Param("progress"); p != fmt.Sprint(len(got)) {
						t.Errorf("progress %s", p)
					}
				default:
					got = append(got, strings.TrimPrefix(m.Method, "notifications/"))
				}
			}
			if strings.HasPrefix(c.header["Accept"], "text/event-stream") && r.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
			}
			if r.Header.Get("Content-Type") == "application/json" {
				take(r.message(t))
			} else {
				if r.Header.Get("X-Accel-Buffering") != "no" || r.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("headers %v", r.Header)
				}
				for m := range events(t, bytes.NewReader(r.body)) {
					take(m.Message)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

// Line ends of a service stay inside their line of data, escaped.
func TestEventsAreOneLine(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := merge(modern(mcp.MethodToolsCall, "newlines"), header{"Accept": "text/event-stream"})
	r := w.post(t, h, edgetest.Call("1", "newlines", "{}"))
	n := 0
	for m := range events(t, bytes.NewReader(r.body)) {
		if n++; m.Text() != "a\nb\r\nc\u2028d" {
			t.Errorf("text %q", m.Text())
		}
	}
	if n != 1 || bytes.ContainsRune(r.body, '\r') {
		t.Errorf("%d events: %q", n, r.body)
	}
}

func TestIdleStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.request(t.Context(), t, w.http.URL, modern(mcp.MethodListen, ""), strings.NewReader(listen("1", "{}")))
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	for comments := 0; comments < 1; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ":\n" {
			comments++
		}
	}
}

// 2026-07-28, cancellation: hanging up cancels, within 250 ms.
func TestDisconnectCancelsModern(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, body := range map[string]string{
		"before anything came": edgetest.Call("1", "hold", "{}"),
		"within a stream":      asks("1", "flood", `"progressToken":1`),
	} {
		t.Run(name, func(t *testing.T) {
			tool := map[bool]string{true: "hold", false: "flood"}[strings.Contains(body, "hold")]
			ctx, hangUp := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp, err := w.client.Do(w.request(ctx, t, w.http.URL, modern(mcp.MethodToolsCall, tool), strings.NewReader(body)))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			receive(t, "the call starts", w.svc.Started)
			at := time.Now()
			hangUp()
			receive(t, "the handler's context ends", w.svc.Ended)
			if took := time.Since(at); took > bustest.Promptly {
				t.Errorf("cancelled after %v", took)
			}
			<-done
		})
	}
}

// 2025-11-25, transports: "Disconnection SHOULD NOT be interpreted as the
// client cancelling its request."
func TestDisconnectDoesNotCancelLegacy(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.initialize(t, mcp.V20251125)
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := w.client.Do(w.request(ctx, t, w.http.URL, h, strings.NewReader(edgetest.LegacyCall("1", "hold", "{}")))); err == nil {
			_ = resp.Body.Close()
		}
	}()
	receive(t, "the call starts", w.svc.Started)
	hangUp()
	<-done
	// The id is still in flight, so the call is not only unanswered, but running.
	w.post(t, h, edgetest.Legacy("1", "ping", "")).refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	select {
	case w.svc.Release <- struct{}{}:
	case <-w.svc.Ended:
		t.Error("the call was cancelled")
	}
}

// TestCancellationAtAnotherEdge reaches the edge that holds the request.
func TestCancellationAtAnotherEdge(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	h := w.initialize(t, mcp.V20251125)
	answer := make(chan reply, 1)
	go func() { answer <- w.post(t, h, edgetest.LegacyCall("1", "hold", "{}")) }()
	receive(t, "the call starts", w.svc.Started)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	if r := w.do(t, w.request(t.Context(), t, other.URL, h, strings.NewReader(cancel))); r.StatusCode != http.StatusAccepted {
		t.Errorf("status %d: %s", r.StatusCode, r.body)
	}
	receive(t, "the handler's context ends", w.svc.Ended)
	if r, _ := receive(t, "the end of the request", answer); bytes.Contains(r.body, []byte("{")) { // a stream may have begun
		t.Errorf("a cancelled request is answered: %d %s", r.StatusCode, r.body)
	}
}

func TestLegacyCancellation(t *testing.T) {
	t.Parallel()
	w := start(t)
	h, other := w.initialize(t, mcp.V20251125), w.initialize(t, mcp.V20251125)
	answer := make(chan reply, 1)
	go func() { answer <- w.post(t, h, edgetest.LegacyCall("1", "hold", "{}")) }()
	receive(t, "the call starts", w.svc.Started)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`
	// Another session's, another id, or none: ignored.
	for _, c := range []struct {
		header header
		body   string
	}{{other, cancel}, {h, strings.Replace(cancel, ":1,", `:"1",`, 1)}, {h, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`}, {header{}, cancel}} {
		if r := w.post(t, c.header, c.body); r.StatusCode != http.StatusAccepted {
			t.Errorf("status %d: %s", r.StatusCode, r.body)
		}
	}
	w.post(t, h, edgetest.Legacy("1", "ping", "")).refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	if r := w.post(t, h, cancel); r.StatusCode != http.StatusAccepted {
		t.Errorf("status %d: %s", r.StatusCode, r.body)
	}
	receive(t, "the handler's context ends", w.svc.Ended)
	if r, _ := receive(t, "the end of the request", answer); bytes.Contains(r.body, []byte("{")) { // a stream may have begun
		t.Errorf("a cancelled request is answered: %d %s", r.StatusCode, r.body)
	}
}

func listen(id, filter string) string {
	return edgetest.Request(id, mcp.MethodListen, `"notifications":`+filter)
}

func TestListen(t *testing.T) {
	t.Parallel()
	w := start(t)
	open := func(id, filter string) *stream {
		s := w.open(t, w.request(t.Context(), t, w.http.URL, modern(mcp.MethodListen, ""), strings.NewReader(listen(id, filter))))
		m := s.await()
		if m.Method != mcp.NotifyAcknowledged || m.Param("_meta", mcp.MetaSubscriptionID) != id {
			t.Fatalf("first came %+v", m)
		}
		return s
	}
	tools := open(`"tools"`, `{"toolsListChanged":true,"resourceSubscriptions":["note:///one"],"other":1}`)
	all := open("2", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	none := open("3", `{"toolsListChanged":false}`)

	next := service.New("next", service.WithLogger(bustest.Logger(t)))
	service.AddTool(next, service.Tool{Name: "new"}, func(context.Context, *service.Call, struct{}) (string, error) { return "", nil })
	next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	edgetest.Serve(t, bustest.Connect(t, w.bus), next)
	expect := func(s *stream, id string, methods ...string) {
		t.Helper()
		for _, method := range methods {
			m := s.await()
			if m.Method != method || m.Param("_meta", mcp.MetaSubscriptionID) != id {
				t.Errorf("subscription %s got %+v, want %s", id, m, method)
			}
		}
	}
	expect(tools, `"tools"`, mcp.NotifyToolsChanged)
	expect(all, "2", mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged)

	w.edge.Server().Close()
	for id, s := range map[string]*stream{`"tools"`: tools, "2": all, "3": none} {
		m := s.await()
		if string(m.ID) != id || m.Field("resultType") != `"complete"` || m.Field("_meta", mcp.MetaSubscriptionID) != id {
			t.Errorf("subscription %s ends with %+v", id, m)
		}
		s.ends()
	}
}

func TestListenAcknowledgesWhatItAgreesTo(t *testing.T) {
	t.Parallel()
	w := start(t)
	for filter, agreed := range map[string]string{
		`{}`: `{}`, `{"toolsListChanged":true}`: `{"toolsListChanged":true}`,
		`{"resourceSubscriptions":["note:///one"]}`:               `{"resourceSubscriptions":["note:///one"]}`,
		`{"promptsListChanged":true,"resourcesListChanged":true}`: `{"promptsListChanged":true,"resourcesListChanged":true}`,
	} {
		s := w.open(t, w.request(t.Context(), t, w.http.URL, modern(mcp.MethodListen, ""), strings.NewReader(listen("1", filter))))
		if m := s.await(); m.Param("notifications") != agreed {
			t.Errorf("%s: agreed to %s, want %s", filter, m.Param("notifications"), agreed)
		}
		s.close()
	}
}

func TestListenNeedsAStream(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := merge(modern(mcp.MethodListen, ""), header{"Accept": "application/json"})
	if r := w.post(t, h, listen("1", `{"toolsListChanged":true}`)); r.StatusCode != http.StatusNotAcceptable {
		t.Errorf("status %d: %s", r.StatusCode, r.body)
	}
}

func TestLegacyStreamTellsOfChanges(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.request(t.Context(), t, w.http.URL, w.initialize(t, mcp.V20250618), nil)
	r.Method = http.MethodGet
	s := w.open(t, r)
	edgetest.Serve(t, bustest.Connect(t, w.bus), edgetest.New("another").Service) // the same names: nothing changes
	next := service.New("next", service.WithLogger(bustest.Logger(t)))
	next.AddResource(mcp.Resource{URI: "new:///", Name: "new"}, edgetest.ReadNothing)
	// The stream's headers come before it listens for changes, so the test makes changes
	// until it hears one.
	for heard := false; !heard; {
		stop := edgetest.Serve(t, bustest.Connect(t, w.bus), next)
		select {
		case m := <-s.next:
			if m.Method != mcp.NotifyResourcesChanged || m.Params != nil {
				t.Errorf("heard %+v", m)
			}
			heard = true
		case <-time.After(200 * time.Millisecond):
		}
		stop()
	}
	w.edge.Server().Close()
	for m := range s.next {
		if m.Method != mcp.NotifyResourcesChanged {
			t.Errorf("heard %+v", m)
		}
	}
	if r := w.post(t, header{}, edgetest.Legacy("1", "ping", "")); r.StatusCode != http.StatusOK {
		t.Errorf("calls end with the streams: %d", r.StatusCode)
	}
}

// dial opens a raw connection with a small window, and sends a POST on it.
func (w *world) dial(t testing.TB, h header, body string) net.Conn {
	t.Helper()
	d := net.Dialer{}
	conn, err := d.DialContext(t.Context(), "tcp", w.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	r := w.request(t.Context(), t, w.http.URL, h, strings.NewReader(body))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

// reliability-security.md 35, 36: a client that does not read blocks nobody and is cut
// off. Not parallel, because it takes the whole machine, as does the next.
func TestSlowReaderIsCut(t *testing.T) {
	w := start(t)
	const stuck = 4
	for range stuck {
		w.dial(t, modern(mcp.MethodToolsCall, "flood"), asks("1", "flood", `"progressToken":1`))
		receive(t, "a call of a slow reader starts", w.svc.Started)
	}
	for range 20 {
		at := time.Now()
		if m := w.call(t, "echo", "{}").message(t); m.Text() != "{}" {
			t.Error("no answer")
		}
		if took := time.Since(at); took > bustest.Promptly {
			t.Errorf("another client waits %v", took)
		}
	}
	// A write that takes too long counts as a disconnect, which cancels.
	for range stuck {
		receive(t, "a call of a slow reader is cancelled", w.svc.Ended)
	}
}

// A stream that was idle for longer than a write may take still ends properly.
func TestIdleStreamEnds(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.request(t.Context(), t, w.http.URL, w.initialize(t, mcp.V20250618), nil)
	r.Method = http.MethodGet
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	<-time.After(writeTime + 200*time.Millisecond)
	w.edge.Server().Close()
	if b, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream breaks off after %q: %v", b, err)
	}
}

// reliability-security.md 78.
func TestSameIDFromManyClients(t *testing.T) {
	w := start(t)
	h := modern(mcp.MethodToolsCall, "echo")
	var clients sync.WaitGroup
	for c := range 100 {
		clients.Go(func() {
			for n := range 3 {
				want := fmt.Sprintf(`{"client":%d,"n":%d}`, c, n)
				m := w.post(t, h, edgetest.Call("0", "echo", want)).message(t)
				if m.Text() != want || string(m.ID) != "0" {
					t.Errorf("client %d got %s, id %s", c, m.Text(), m.ID)
				}
			}
		})
	}
	clients.Wait()
}
