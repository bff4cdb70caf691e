package streamable_test

import (
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
	old := w.Initialize(t, mcp.V20250618, "{}")
	legacy := edgetest.Legacy("1", "tools/call", `"name":"progress","_meta":{"progressToken":"tök"}`)
	for name, c := range map[string]struct {
		header header
		body   string
		want   string // methods in order, and the result
	}{
		"nothing asked for":  {call, asks("1", "progress", `"x":1`), "result"},
		"progress":           {call, asks("1", "progress", `"progressToken":"tök"`), "progress progress result"},
		"both":               {call, asks("1", "progress", `"progressToken":1,"`+mcp.MetaLogLevel+`":"debug"`), "progress progress message message result"},
		"neither, JSON only": {merge(call, header{"Accept": "application/json"}), asks("1", "progress", `"progressToken":1`), "result"},
		"legacy":             {old, legacy, "progress progress message result"},
		"legacy, JSON only":  {merge(old, header{"Accept": "application/json"}), legacy, "result"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.Post(t, c.header, c.body)
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
				take(r.Message(t))
			} else {
				if r.Header.Get("X-Accel-Buffering") != "no" || r.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("headers %v", r.Header)
				}
				for m := range edgetest.Events(t, bytes.NewReader(r.Bytes)) {
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
	r := w.Post(t, h, edgetest.Call("1", "newlines", "{}"))
	n := 0
	for m := range edgetest.Events(t, bytes.NewReader(r.Bytes)) {
		if n++; m.Text() != "a\nb\r\nc\u2028d" {
			t.Errorf("text %q", m.Text())
		}
	}
	if n != 1 || bytes.ContainsRune(r.Bytes, '\r') {
		t.Errorf("%d events: %q", n, r.Bytes)
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
				resp, err := edgetest.Client.Do(w.Request(t, http.MethodPost, modern(mcp.MethodToolsCall, tool), strings.NewReader(body)).WithContext(ctx))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			w.Svc.Running(t)
			at := time.Now()
			hangUp()
			w.Svc.Over(t)
			if took := time.Since(at); took > bustest.Promptly {
				t.Errorf("cancelled after %v", took)
			}
			<-done
		})
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	w := start(t)
	open := func(id, filter, agreed string) *edgetest.Stream {
		s, m := w.Listen(t, id, filter)
		if m.Param("notifications") != agreed {
			t.Errorf("%s: agreed to %s, want %s", filter, m.Param("notifications"), agreed)
		}
		return s
	}
	tools := open(`"tools"`, `{"toolsListChanged":true,"resourceSubscriptions":["note:///one"],"other":1}`, `{"toolsListChanged":true,"resourceSubscriptions":["note:///one"]}`)
	const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
	all, none := open("2", everything, everything), open("3", `{"toolsListChanged":false}`, "{}")
	if r := w.Post(t, merge(modern(mcp.MethodListen, ""), header{"Accept": "application/json"}), listen("1", everything)); r.StatusCode != http.StatusNotAcceptable {
		t.Errorf("without a stream: %d %s", r.StatusCode, r.Bytes)
	}

	next := service.New("next", service.WithLogger(bustest.Logger(t)))
	service.AddTool(next, service.Tool{Name: "new"}, func(context.Context, *service.Call, struct{}) (string, error) { return "", nil })
	next.AddPrompt(mcp.Prompt{Name: "new"}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) { return nil, nil }, nil)
	edgetest.Serve(t, bustest.Connect(t, w.Bus), next)
	expect := func(s *edgetest.Stream, id string, methods ...string) {
		t.Helper()
		for _, method := range methods {
			m := s.Await()
			if m.Method != method || m.Param("_meta", mcp.MetaSubscriptionID) != id {
				t.Errorf("subscription %s got %+v, want %s", id, m, method)
			}
		}
	}
	expect(tools, `"tools"`, mcp.NotifyToolsChanged)
	expect(all, "2", mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged)

	w.Edge.Server().Close()
	for id, s := range map[string]*edgetest.Stream{`"tools"`: tools, "2": all, "3": none} {
		m := s.Await()
		if string(m.ID) != id || m.Field("resultType") != `"complete"` || m.Field("_meta", mcp.MetaSubscriptionID) != id {
			t.Errorf("subscription %s ends with %+v", id, m)
		}
		s.Ends()
	}
}

// reliability-security.md 35, 36: a client that does not read blocks nobody and is cut
// off. Not parallel, because it takes the whole machine.
func TestSlowReaderIsCut(t *testing.T) {
	w := start(t)
	const stuck = 4
	for range stuck {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.HTTP.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		if err := w.Request(t, http.MethodPost, modern(mcp.MethodToolsCall, "flood"), strings.NewReader(asks("1", "flood", `"progressToken":1`))).Write(conn); err != nil {
			t.Fatal(err)
		}
		w.Svc.Running(t)
	}
	for range 20 {
		at := time.Now()
		if m := w.Call(t, "echo", "{}").Message(t); m.Text() != "{}" {
			t.Error("no answer")
		}
		if took := time.Since(at); took > bustest.Promptly {
			t.Errorf("another client waits %v", took)
		}
	}
	// A write that takes too long counts as a disconnect, which cancels.
	for range stuck {
		w.Svc.Over(t)
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
				m := w.Post(t, h, edgetest.Call("0", "echo", want)).Message(t)
				if m.Text() != want || string(m.ID) != "0" {
					t.Errorf("client %d got %s, id %s", c, m.Text(), m.ID)
				}
			}
		})
	}
	clients.Wait()
}
