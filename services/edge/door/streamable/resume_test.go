package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// replica is an edge that can be killed.
type replica struct {
	*httptest.Server
	edge *edge.Edge
	conn *bus.Conn
}

func (w *world) replica(t *testing.T) *replica {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	conn := bustest.Connect(t, w.bus)
	e, err := edge.New(ctx, conn, edge.Config{Version: "1", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.svc.Name()); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	return &replica{srv, e, conn}
}

// kill takes the edge off the bus and cuts its clients off, without telling either.
func (r *replica) kill() {
	r.conn.Close()
	r.CloseClientConnections()
	r.edge.Close()
}

// begin calls a tool at a replica, with a progress token.
func (w *world) begin(t *testing.T, at *replica, h header, tool string) *stream {
	t.Helper()
	body := edgetest.Legacy("7", mcp.MethodToolsCall, `"name":"`+tool+`","arguments":{},"_meta":{"progressToken":"p"}`)
	return w.open(t, w.request(t.Context(), t, at.URL, h, strings.NewReader(body)))
}

func (w *world) resumption(t *testing.T, at *replica, h header, id string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", id)
	for name, v := range h {
		r.Header[name] = lines(v)
	}
	return r
}

func (w *world) resume(t *testing.T, at *replica, h header, id string) *stream {
	t.Helper()
	return w.open(t, w.resumption(t, at, h, id))
}

func (s *stream) progress(want int) {
	s.t.Helper()
	if m := s.await(); m.Method != mcp.NotifyProgress || m.Param("progress") != fmt.Sprint(want) || m.Param("progressToken") != `"p"` {
		s.t.Fatalf("want progress %d, got %+v %s", want, m, m.Params)
	}
}

func (s *stream) result(id, text string) {
	s.t.Helper()
	if m := s.await(); string(m.ID) != id || m.Text() != text {
		s.t.Fatalf("want result %q of %s, got %+v %s", text, id, m, m.Result)
	}
	s.ends()
}

// send passes a test's tool its next value.
func send(t *testing.T, what string, c chan<- struct{}) {
	t.Helper()
	select {
	case c <- struct{}{}:
	case <-time.After(time.Minute):
		t.Fatalf("not taken in a minute: %s", what)
	}
}

// TestResume makes a client come back for its answer, at another edge or the same one,
// after its connection, its edge or both are gone.
func TestResume(t *testing.T) {
	t.Parallel()
	// Each subtest has its own world, because steps go to any call.
	setup := func(t *testing.T, version string) (w *world, one, two *replica, h header) {
		t.Parallel()
		w = &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
		w.svc.Start(t, bustest.Connect(t, w.bus))
		one, two = w.replica(t), w.replica(t)
		w.http, w.client = one.Server, edgetest.Client
		t.Cleanup(w.client.CloseIdleConnections)
		r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"`+version+`","capabilities":{"elicitation":{}}`))
		return w, one, two, header{mcp.HeaderSessionID: r.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: version}
	}
	for _, version := range []string{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run("the edge is killed under "+version, func(t *testing.T) {
			w, one, two, h := setup(t, version)
			send(t, "step", w.svc.Step)
			send(t, "step", w.svc.Step)
			s := w.begin(t, one, h, "steps")
			s.progress(1)
			s.progress(2)
			one.kill()
			s.ends()
			send(t, "step", w.svc.Step)
			send(t, "step", w.svc.Step)
			again := w.resume(t, two, h, s.id)
			again.progress(3)
			again.progress(4)
			send(t, "step", w.svc.Step)
			again.progress(5)
			send(t, "release", w.svc.Release)
			again.result("7", "released")
			if n := w.svc.Calls.Load(); n != 1 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
	for name, same := range map[string]bool{"the connection breaks, to another edge": false, "the connection breaks, to the same edge": true} {
		t.Run(name, func(t *testing.T) {
			w, one, two, h := setup(t, mcp.V20251125)
			if same {
				two = one
			}
			s := w.begin(t, one, h, "steps")
			send(t, "step", w.svc.Step)
			s.progress(1)
			s.close()
			send(t, "step", w.svc.Step)
			again := w.resume(t, two, h, s.id)
			again.progress(2)
			again.close() // and once more
			send(t, "step", w.svc.Step)
			again = w.resume(t, two, h, again.id)
			again.progress(3)
			send(t, "release", w.svc.Release)
			again.result("7", "released")
			// All of it is there for as long as it is kept.
			all := w.resume(t, one, h, s.id)
			all.progress(2)
			all.progress(3)
			all.result("7", "released")
		})
	}
	t.Run("the client is primed before anything happens", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "steps")
		if e := s.event(); e.id == "" || !e.empty || e.retry == "" {
			t.Fatalf("priming event: %+v", e)
		}
		one.kill()
		again := w.resume(t, two, h, s.id)
		send(t, "release", w.svc.Release)
		again.result("7", "released")
	})
	t.Run("the connection breaks again before anything comes", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "steps")
		send(t, "step", w.svc.Step)
		s.progress(1)
		s.close()
		again := w.resume(t, two, h, s.id)
		if e := again.event(); e.id != s.id || !e.empty || e.retry == "" {
			t.Fatalf("priming event: %+v; want id %s", e, s.id)
		}
		again.close()
		again = w.resume(t, one, h, again.id)
		send(t, "release", w.svc.Release)
		again.result("7", "released")
	})
	t.Run("much was missed, and is read slowly", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "flood")
		s.progress(1)
		one.kill()
		const steps = 160 // 5 MB, more than the system buffers
		all := func(s *stream) {
			t.Helper()
			for i := 2; ; i++ {
				m := s.await()
				if i == steps {
					send(t, "release", w.svc.Release)
				}
				if m.Method == "" && i > steps {
					if m.Text() != "released" {
						t.Errorf("answered %s", m.Result)
					}
					return
				}
				if m.Param("progress") != fmt.Sprint(i) {
					t.Fatalf("want progress %d, got %+v %.200s", i, m.Error, m.Result)
				}
			}
		}
		all(w.resume(t, two, h, s.id))
		// A client that reads nothing for as long as a write may take is cut off. On a
		// busy machine this may happen to a client that only reads slowly.
		var err error
		for range 5 {
			if err = w.slowly(t, two, h, s.id, steps); err == nil {
				return
			}
		}
		t.Error(err)
	})
	t.Run("a client before 2025-11-25 gets no empty event", func(t *testing.T) {
		w, one, _, h := setup(t, mcp.V20250618)
		send(t, "step", w.svc.Step)
		s := w.begin(t, one, h, "steps")
		if e := s.event(); e.empty || e.id == "" || e.Method != mcp.NotifyProgress {
			t.Errorf("first event: %+v", e)
		}
		s.close()
		again := w.resume(t, one, h, s.id)
		send(t, "release", w.svc.Release)
		if e := again.event(); e.empty {
			t.Errorf("first event after it came back: %+v", e)
		}
		again.ends()
	})
	t.Run("a fast answer is plain JSON", func(t *testing.T) {
		w, _, _, h := setup(t, mcp.V20251125)
		// On a busy machine some are not fast.
		bustest.Eventually(t, "an answer that is no stream", func() bool {
			r := w.post(t, h, edgetest.LegacyCall("1", "safe", `{}`))
			if text := r.answer(t).Text(); text != "safe" {
				t.Fatalf("%s", r.body)
			}
			return r.Header.Get("Content-Type") == "application/json"
		})
	})
	t.Run("a question is missed, its edge lives", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "ask")
		primed := s.event().id
		q := s.await()
		s.close()
		again := w.resume(t, two, h, primed)
		if m := again.await(); m.Method != mcp.MethodElicit || string(m.ID) != string(q.ID) {
			t.Fatalf("the question is not the same: %+v", m)
		}
		w.reply(t, two, h, q, `"result":{"action":"accept","content":{}}`)
		again.result("7", "accept")
	})
	t.Run("a question is open when its edge is killed", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "remember")
		q := s.await()
		one.kill()
		again := w.resume(t, two, h, s.id)
		next := again.await()
		if next.Method != mcp.MethodElicit || string(next.ID) == string(q.ID) {
			t.Fatalf("want the question anew, got %+v", next)
		}
		w.reply(t, two, h, next, `"result":{"action":"accept","content":{}}`)
		again.result("7", "kept secret")
	})
	t.Run("a tool lets go of the connection", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		send(t, "step", w.svc.Step)
		s := w.begin(t, one, h, "steps")
		s.progress(1)
		send(t, "leave", w.svc.Leave)
		if e := s.event(); e.retry != "20" {
			t.Errorf("before the end: %+v", e)
		}
		s.ends()
		again := w.resume(t, two, h, s.id)
		send(t, "release", w.svc.Release)
		again.result("7", "released")
	})
	t.Run("a tool lets go of the connection first", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		go func() { w.svc.Leave <- struct{}{} }()
		s := w.begin(t, one, h, "steps")
		if e := s.event(); e.id == "" || !e.empty {
			t.Errorf("priming event: %+v", e)
		}
		s.ends()
		again := w.resume(t, two, h, s.id)
		send(t, "release", w.svc.Release)
		again.result("7", "released")
	})
	t.Run("a tool cannot let go of a client that does not expect it", func(t *testing.T) {
		w, one, _, h := setup(t, mcp.V20250618)
		send(t, "step", w.svc.Step)
		s := w.begin(t, one, h, "steps")
		s.progress(1)
		send(t, "leave", w.svc.Leave)
		send(t, "release", w.svc.Release)
		s.result("7", "released")
	})
	t.Run("an edge that closes lets its clients go", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s, asked := w.begin(t, one, h, "steps"), w.begin(t, one, h2(t, w), "ask")
		send(t, "step", w.svc.Step)
		s.progress(1)
		q := asked.await()
		one.edge.Server().Close()
		s.ends()
		if m := asked.await(); m.Method != mcp.NotifyCancelled || !strings.Contains(string(m.Params), string(q.ID)) {
			t.Errorf("the question is not withdrawn: %+v", m)
		}
		asked.ends()
		again := w.resume(t, two, h, s.id)
		send(t, "release", w.svc.Release)
		again.result("7", "released")
	})
	t.Run("cancelled after it came back", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		send(t, "step", w.svc.Step)
		s := w.begin(t, one, h, "steps")
		s.progress(1)
		one.kill()
		again := w.resume(t, two, h, s.id)
		bustest.Eventually(t, "the handler hears of it", func() bool {
			w.http = two.Server
			w.post(t, h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			select {
			case <-w.svc.Ended:
				return true
			default:
				return false
			}
		})
		again.ends()
	})
	t.Run("what is not this session's", func(t *testing.T) {
		w, one, two, h := setup(t, mcp.V20251125)
		s := w.begin(t, one, h, "steps")
		id := s.event().id
		for name, c := range map[string]struct {
			header header
			id     string
		}{
			"another session": {h2(t, w), id}, "another stream": {h, strings.Repeat("A", 26) + id[26:]}, "made up": {h, "../../x"},
			"a long one": {h, strings.Repeat("x", 4000)}, "no numbers": {h, id[:26] + "-x-y"}, "out of range": {h, id[:26] + "-99999999999-1"},
		} {
			r := w.do(t, w.resumption(t, two, c.header, c.id))
			if r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
			}
		}
		send(t, "release", w.svc.Release)
		s.result("7", "released")
	})
}

// h2 opens another session.
func h2(t *testing.T, w *world) header {
	t.Helper()
	r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}`))
	return header{mcp.HeaderSessionID: r.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: mcp.V20251125}
}

// reply answers a request of the server.
func (w *world) reply(t *testing.T, at *replica, h header, q edgetest.Message, rest string) {
	t.Helper()
	r := w.do(t, w.request(t.Context(), t, at.URL, h, strings.NewReader(`{"jsonrpc":"2.0","id":`+string(q.ID)+`,`+rest+`}`)))
	if r.StatusCode != http.StatusAccepted {
		t.Fatalf("answer: %d %s", r.StatusCode, r.body)
	}
}
