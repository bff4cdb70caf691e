package streamable_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestInitialize(t *testing.T) {
	t.Parallel()
	w := start(t)
	for asked, settled := range map[string]string{
		mcp.V20241105: mcp.V20241105, mcp.V20250326: mcp.V20250326, mcp.V20250618: mcp.V20250618, mcp.V20251125: mcp.V20251125,
		mcp.Modern: mcp.LegacyLatest, "2024-10-07": mcp.V20241105, "1900-01-01": mcp.LegacyLatest, "9999-12-31": mcp.LegacyLatest,
	} {
		h := w.Initialize(t, asked, "{}")
		if got := h[mcp.HeaderProtocolVersion]; got != settled {
			t.Errorf("settled on %s, want %s", got, settled)
		}
		if r := w.Post(t, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.StatusCode != http.StatusAccepted || len(r.Bytes) > 0 {
			t.Errorf("initialized: %d %s", r.StatusCode, r.Bytes)
		}
		r := w.Post(t, h, edgetest.LegacyCall(`"x"`, "echo", `{"a":1}`))
		if m := r.Answer(t); m.Text() != `{"a":1}` || string(m.ID) != `"x"` || m.Field("resultType") != "" || m.Field("_meta") != "" {
			t.Errorf("call: %s", r.Bytes)
		}
	}
	r := w.Post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","capabilities":[]`))
	if r.Refused(t, http.StatusOK, mcp.CodeInvalidParams, "invalid_params"); r.Header.Get(mcp.HeaderSessionID) != "" {
		t.Error("a session was made")
	}
	r = w.Post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","capabilities":{"x":"`+strings.Repeat("x", 100<<10)+`"}`))
	r.Refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large") // more than a session holds
	for _, c := range []struct {
		header header
		body   string
		status int
	}{
		{w.Initialize(t, mcp.V20250618, "{}"), `{"jsonrpc":"2.0","id":7,"result":{}}`, 202}, {header{}, edgetest.LegacyCall("1", "echo", "{}"), 200},
	} {
		if r := w.Post(t, c.header, c.body); r.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.body, r.StatusCode, r.Bytes)
		}
	}
}

// byToken takes a token as the name of its bearer.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer == "" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "no token")
	}
	return gateway.Principal{Name: c.Bearer}, nil
}

// A session is served by every edge, to the principal that opened it alone, until it is
// deleted. test/tenants tries to use a session as everybody else.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := start(t, edgetest.As(byToken{}))
	w.Join(t, edgetest.As(byToken{}))
	ping, ada := edgetest.Legacy("1", "ping", ""), header{"Authorization": "Bearer ada"}
	w.Post(t, header{}, edgetest.Initialize(mcp.V20251125)).Refused(t, http.StatusUnauthorized, mcp.CodeUnauthenticated, "unauthenticated")
	opened := w.Post(t, ada, edgetest.Initialize(mcp.V20251125))
	id := opened.Header.Get(mcp.HeaderSessionID)
	h := merge(ada, header{mcp.HeaderSessionID: id, mcp.HeaderProtocolVersion: mcp.V20251125})
	at := func(edge int, method string, h header) edgetest.Reply {
		t.Helper()
		return edgetest.Do(t, w.Edges[edge].Request(t, method, h, strings.NewReader(ping)))
	}
	for edge := range w.Edges {
		if r := at(edge, "POST", h); r.StatusCode != http.StatusOK {
			t.Errorf("a session is not served by every edge: %d %s", r.StatusCode, r.Bytes)
		}
	}
	others := map[string]header{"another principal": {"Authorization": "Bearer bob"}}
	for name, id := range map[string]string{
		"unknown": "AAAAAAAAAAAAAAAAAAAAAAAAAA", "wildcard": "*", "key of another bucket": "../registry", "long": strings.Repeat("A", 9000), "lower case": strings.ToLower(id), "shorter": id[1:],
	} {
		others[name] = header{mcp.HeaderSessionID: id}
	}
	for name, other := range others {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if r := at(0, method, merge(h, other)); r.StatusCode != http.StatusNotFound {
				t.Errorf("%s, session %s: %d %s", method, name, r.StatusCode, r.Bytes)
			}
		}
	}
	w.Post(t, merge(h, header{mcp.HeaderSessionID: id + "\n" + id}), ping).Refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	for _, method := range []string{"GET", "DELETE"} {
		at(0, method, merge(h, header{mcp.HeaderSessionID: absent})).Refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	}
	stream := w.Get(t, h, "")
	if r := at(1, "DELETE", h); r.StatusCode != http.StatusNoContent {
		t.Fatalf("delete: %d %s", r.StatusCode, r.Bytes)
	}
	stream.Ends() // at the other edge
	for _, method := range []string{"POST", "DELETE"} {
		at(1, method, h).Refused(t, 404, mcp.CodeInvalidRequest, "unknown_session")
	}
	bustest.Eventually(t, "the other edge forgets the session", func() bool { return at(0, "POST", h).StatusCode == 404 })
}

// A request is cancelled by its own session and id alone, and until then its id is taken,
// by a string or a number, even if its client hangs up (2025-11-25, transports).
func TestLegacyCancellation(t *testing.T) {
	t.Parallel()
	w := start(t)
	h, other := w.Initialize(t, mcp.V20251125, "{}"), w.Initialize(t, mcp.V20251125, "{}")
	answers := make(chan edgetest.Reply, 3)
	send := func(h header) {
		go func() { answers <- w.Post(t, h, edgetest.LegacyCall("1", "hold", "{}")) }()
		w.Svc.Running(t)
	}
	taken := func(h header, id string, want bool) {
		t.Helper()
		if m := w.Post(t, h, edgetest.Legacy(id, "ping", "")).Message(t); (m.Code() == mcp.CodeInvalidRequest) != want {
			t.Errorf("id %s is taken: want %t, got %+v", id, want, m)
		}
	}
	send(h)
	taken(h, "1", true)
	taken(h, `"1"`, false)
	send(other)
	send(header{}) // no session
	cancel := edgetest.Cancel("1")
	for _, c := range []struct {
		header header
		body   string
	}{{h, edgetest.Cancel(`"1"`)}, {h, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`}, {header{}, cancel}, {h, cancel}, {h, cancel}} {
		if r := w.Post(t, c.header, c.body); r.StatusCode != http.StatusAccepted {
			t.Errorf("status %d: %s", r.StatusCode, r.Bytes)
		}
	}
	w.Svc.Over(t)
	if r := edgetest.Receive(t, "the end of the request", answers); strings.Contains(string(r.Bytes), "{") { // a stream may have begun
		t.Errorf("a cancelled request is answered: %d %s", r.StatusCode, r.Bytes)
	}
	taken(h, "1", false)
	taken(other, "1", true)
	for range 2 {
		edgetest.Send(t, "release", w.Svc.Release)
		if r := edgetest.Receive(t, "an answer", answers); !strings.Contains(string(r.Bytes), `"text":"released"`) {
			t.Errorf("answer %s", r.Bytes)
		}
	}
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := edgetest.Client.Do(w.Request(t, http.MethodPost, h, strings.NewReader(edgetest.LegacyCall("1", "hold", "{}"))).WithContext(ctx)); err == nil {
			_ = resp.Body.Close()
		}
	}()
	w.Svc.Running(t)
	hangUp()
	<-done
	taken(h, "1", true) // so the call is not only unanswered, but running
	select {
	case w.Svc.Release <- struct{}{}:
	case <-w.Svc.Ended:
		t.Error("the call was cancelled")
	}
}

// A legacy client is asked and answers at the edge that asked or at another one; questions
// end with their call and their session. services/edge/protocol asks the rest.
func TestBridge(t *testing.T) {
	t.Parallel()
	w := start(t)
	other := w.Join(t)
	for name, c := range map[string]func(t *testing.T, h header, id string){
		"same edge": func(t *testing.T, h header, id string) {
			w.Post(t, h, answer(id, `"result":{"action":"accept","content":{}}`))
		},
		"other edge": func(t *testing.T, h header, id string) {
			other.Post(t, h, answer(id, `"result":{"action":"accept","content":{}}`))
		},
		"cancelled": func(t *testing.T, h header, _ string) { w.Post(t, h, edgetest.Cancel("7")) },
		"deleted at another edge": func(t *testing.T, h header, _ string) {
			if r := edgetest.Do(t, other.Request(t, http.MethodDelete, h, nil)); r.StatusCode != http.StatusNoContent {
				t.Errorf("%d %s", r.StatusCode, r.Bytes)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := w.Initialize(t, mcp.V20250618, elicits)
			s := w.Open(t, h, edgetest.LegacyCall("7", "ask", `{}`))
			q := s.Await()
			if q.Method != mcp.MethodElicit || !strings.Contains(string(q.Params), `"requestedSchema"`) {
				t.Fatalf("question: %+v", q)
			}
			w.Post(t, w.Initialize(t, mcp.V20250618, elicits), answer(string(q.ID), `"result":{"action":"cancel"}`)) // of a client that was not asked
			c(t, h, string(q.ID))
			m := s.Await()
			if strings.HasSuffix(name, "edge") && !strings.HasPrefix(name, "deleted") {
				if string(m.ID) != "7" || m.Text() != "accept" {
					t.Errorf("result: %+v", m)
				}
			} else if m.Method != mcp.NotifyCancelled || !strings.Contains(string(m.Params), string(q.ID)) {
				t.Errorf("the question is still open: %+v", m)
			}
			s.Ends()
		})
	}
	for name, h := range map[string]header{
		"a client without the capability": w.Initialize(t, mcp.V20250618, "{}"), "a client that takes no stream": merge(w.Initialize(t, mcp.V20250618, elicits), header{"Accept": "application/json"}),
	} {
		t.Run(name, func(t *testing.T) {
			w.Post(t, h, edgetest.LegacyCall("1", "ask", `{}`)).Refused(t, http.StatusOK, mcp.CodeInvalidRequest, "missing_capability")
		})
	}
}

func answer(id, rest string) string { return `{"jsonrpc":"2.0","id":` + id + `,` + rest + `}` }
