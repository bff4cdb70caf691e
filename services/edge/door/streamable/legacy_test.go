package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// initialize opens a session of a version and returns its headers.
func (w *world) initialize(t testing.TB, version string) header {
	t.Helper()
	r := w.post(t, header{}, edgetest.Initialize(version))
	m := r.message(t)
	id := r.Header.Get(mcp.HeaderSessionID)
	if r.StatusCode != http.StatusOK || m.Error != nil || id == "" {
		t.Fatalf("status %d, session %q: %s", r.StatusCode, id, r.body)
	}
	return header{mcp.HeaderSessionID: id, mcp.HeaderProtocolVersion: strings.Trim(m.Field("protocolVersion"), `"`)}
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	w := start(t)
	for asked, settled := range map[string]string{
		mcp.V20241105: mcp.V20241105, mcp.V20250326: mcp.V20250326, mcp.V20250618: mcp.V20250618, mcp.V20251125: mcp.V20251125,
		mcp.Modern: mcp.LegacyLatest, "2024-10-07": mcp.V20241105, "1900-01-01": mcp.LegacyLatest, "9999-12-31": mcp.LegacyLatest,
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			h := w.initialize(t, asked)
			if got := h[mcp.HeaderProtocolVersion]; got != settled {
				t.Errorf("settled on %s, want %s", got, settled)
			}
			if r := w.post(t, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.StatusCode != http.StatusAccepted || len(r.body) > 0 {
				t.Errorf("initialized: %d %s", r.StatusCode, r.body)
			}
			r := w.post(t, h, edgetest.LegacyCall(`"x"`, "echo", `{"a":1}`))
			if m := r.answer(t); m.Text() != `{"a":1}` || string(m.ID) != `"x"` || m.Field("resultType") != "" || m.Field("_meta") != "" {
				t.Errorf("call: %s", r.body)
			}
		})
	}
	for name, body := range map[string]string{
		"no version":   edgetest.Legacy("0", "initialize", `"capabilities":{}`),
		"client info":  edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","clientInfo":{"name":1}`),
		"capabilities": edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","capabilities":[]`),
	} {
		t.Run("bad "+name, func(t *testing.T) {
			t.Parallel()
			r := w.post(t, header{}, body)
			r.refused(t, http.StatusOK, mcp.CodeInvalidParams, "invalid_params")
			if r.Header.Get(mcp.HeaderSessionID) != "" {
				t.Error("a session was made")
			}
		})
	}
	t.Run("more than a session holds", func(t *testing.T) {
		t.Parallel()
		r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","capabilities":{"x":"`+strings.Repeat("x", 100<<10)+`"}`))
		r.refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large")
	})
}

func TestLegacyMethods(t *testing.T) {
	t.Parallel()
	w := start(t)
	old, last := w.initialize(t, mcp.V20250618), w.initialize(t, mcp.V20251125)
	strict := edgetest.LegacyCall("1", "strict", `{"text":1}`)
	for name, c := range map[string]struct {
		header header
		body   string
		status int
		code   int
		want   string
	}{
		"ping":                       {old, edgetest.Legacy("1", "ping", ""), 200, 0, `"result":{}`},
		"list":                       {old, edgetest.Legacy("1", "prompts/list", ""), 200, 0, `"result":{"prompts":[`},
		"list has no hints":          {last, edgetest.Legacy("1", "prompts/list", ""), 200, 0, `}]}}`},
		"read has no hints":          {last, edgetest.Legacy("1", "resources/read", `"uri":"note:///one"`), 200, 0, `"text":"it is "}]}}`},
		"level":                      {old, edgetest.Legacy("1", "logging/setLevel", `"level":"error"`), 200, 0, `"result":{}`},
		"level, unknown":             {old, edgetest.Legacy("1", "logging/setLevel", `"level":"loud"`), 200, mcp.CodeInvalidParams, "emergency"},
		"level, missing":             {old, edgetest.Legacy("1", "logging/setLevel", ""), 200, mcp.CodeInvalidParams, "params.level"},
		"unknown method":             {old, edgetest.Legacy("1", "tools/destroy", ""), 200, mcp.CodeMethodNotFound, "tools/destroy"},
		"discover, which is to come": {old, edgetest.Legacy("1", "server/discover", ""), 200, mcp.CodeMethodNotFound, ""},
		"listen, which is to come":   {old, edgetest.Legacy("1", "subscriptions/listen", ""), 200, mcp.CodeMethodNotFound, ""},
		"unknown tool":               {old, edgetest.LegacyCall("1", "nope", "{}"), 200, mcp.CodeInvalidParams, "Unknown tool: nope"},
		"unknown resource":           {old, edgetest.Legacy("1", "resources/read", `"uri":"note:///no"`), 200, mcp.CodeLegacyNoResource, `"uri":"note:///no"`},
		"uri missing":                {old, edgetest.Legacy("1", "resources/read", ""), 200, mcp.CodeInvalidParams, "params.uri"},
		"name missing":               {old, edgetest.Legacy("1", "tools/call", ""), 200, mcp.CodeInvalidParams, "params.name"},
		"arguments amiss":            {old, strict, 200, mcp.CodeInvalidParams, `"parameter":"text","detail":"got number, want string"`},
		"arguments amiss, 2025-11":   {last, strict, 200, 0, `"isError":true`},
		"asks for input":             {last, edgetest.LegacyCall("1", "ask", "{}"), 200, mcp.CodeInvalidRequest, "elicitation"},
		"a response":                 {old, `{"jsonrpc":"2.0","id":7,"result":{}}`, 202, 0, ""},
		"an unknown notification":    {old, `{"jsonrpc":"2.0","method":"notifications/x"}`, 202, 0, ""},
		"no session, no version":     {header{}, edgetest.LegacyCall("1", "echo", "{}"), 200, 0, `"text":"{}"`},
		"batch":                      {old, `[` + edgetest.Legacy("1", "ping", "") + `]`, 400, mcp.CodeInvalidRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.post(t, c.header, c.body)
			if r.StatusCode != c.status || !strings.Contains(string(r.body), c.want) {
				t.Fatalf("status %d, want %d with %s: %s", r.StatusCode, c.status, c.want, r.body)
			}
			if c.status != 202 {
				if m := r.answer(t); m.Code() != c.code {
					t.Errorf("code %d, want %d: %s", m.Code(), c.code, r.body)
				}
			}
		})
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, second := w.join(t)
	ping := edgetest.Legacy("1", "ping", "")
	at := func(url, method string, h header, body string) reply {
		r := w.request(t.Context(), t, url, h, strings.NewReader(body))
		r.Method = method
		if method == http.MethodGet {
			r.Header.Set("Accept", "text/event-stream")
		}
		return w.do(t, r)
	}
	h := w.initialize(t, mcp.V20251125)
	for _, url := range []string{w.http.URL, second.URL} {
		if r := at(url, "POST", h, ping); r.StatusCode != http.StatusOK {
			t.Errorf("a session is not served by every edge: %d %s", r.StatusCode, r.body)
		}
	}
	for name, id := range map[string]string{
		"unknown": "AAAAAAAAAAAAAAAAAAAAAAAAAA", "wildcard": "*", "all": ">", "key of another bucket": "../registry", "long": strings.Repeat("A", 9000),
		"lower case": strings.ToLower(h[mcp.HeaderSessionID]), "shorter": h[mcp.HeaderSessionID][1:],
	} {
		bad := merge(h, header{mcp.HeaderSessionID: id})
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if r := at(w.http.URL, method, bad, ping); r.StatusCode != http.StatusNotFound {
				t.Errorf("%s, session %s: %d %s", method, name, r.StatusCode, r.body)
			}
		}
	}
	twice := merge(h, header{mcp.HeaderSessionID: h[mcp.HeaderSessionID] + "\n" + h[mcp.HeaderSessionID]})
	w.post(t, twice, ping).refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	for _, method := range []string{"GET", "DELETE"} {
		none := merge(h, header{mcp.HeaderSessionID: absent})
		at(w.http.URL, method, none, "").refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	}
	r := w.request(t.Context(), t, w.http.URL, h, nil)
	r.Method = http.MethodGet
	stream := w.open(t, r)
	if r := at(second.URL, "DELETE", h, ""); r.StatusCode != http.StatusNoContent {
		t.Fatalf("delete: %d %s", r.StatusCode, r.body)
	}
	stream.ends() // at the other edge
	at(second.URL, "POST", h, ping).refused(t, 404, mcp.CodeInvalidRequest, "unknown_session")
	at(second.URL, "DELETE", h, "").refused(t, 404, mcp.CodeInvalidRequest, "unknown_session")
	eventually(t, "the other edge forgets the session", func() bool { return at(w.http.URL, "POST", h, ping).StatusCode == 404 })
}

// The level that a client sets counts from its next request on, at every edge.
func TestLogLevelIsTheSessions(t *testing.T) {
	t.Parallel()
	w := start(t)
	h := w.initialize(t, mcp.V20251125)
	logs := func() (n int) {
		t.Helper()
		bustest.Eventually(t, "the call is answered", func() bool {
			r := w.post(t, h, edgetest.LegacyCall("1", "progress", "{}"))
			n = strings.Count(string(r.body), mcp.NotifyMessage)
			m := r.answer(t)
			if busy := m.Error != nil && m.Error.Data.Reason == "unavailable" && m.Error.Data.Executed == "no"; m.Text() != "done" && !busy {
				t.Fatalf("%s", r.body)
			}
			return m.Error == nil // a busy machine may be late with the record of a call
		})
		return n
	}
	if n := logs(); n != 1 {
		t.Errorf("%d logs at the default level, want 1", n)
	}
	for range 20 {
		for level, want := range map[string]int{"debug": 2, "emergency": 0} {
			if m := w.post(t, h, edgetest.Legacy("1", "logging/setLevel", `"level":"`+level+`"`)).message(t); m.Error != nil {
				t.Fatal(m.Error)
			}
			if n := logs(); n != want {
				t.Fatalf("%d logs at level %s, want %d", n, level, want)
			}
		}
	}
}

func TestDuplicateIDInFlight(t *testing.T) {
	t.Parallel()
	w := start(t)
	one, two := w.initialize(t, mcp.V20251125), w.initialize(t, mcp.V20251125)
	hold := edgetest.LegacyCall("7", "hold", "{}")
	answers := make(chan reply, 3)
	send := func(h header, body string) { go func() { answers <- w.post(t, h, body) }() }
	send(one, hold)
	receive(t, "the first call starts", w.svc.Started)
	w.post(t, one, edgetest.Legacy("7", "ping", "")).refused(t, 400, mcp.CodeInvalidRequest, "invalid_request")
	send(two, hold) // another session
	receive(t, "the second call starts", w.svc.Started)
	send(header{}, hold) // no session
	receive(t, "the third call starts", w.svc.Started)
	if m := w.post(t, one, edgetest.Legacy(`"7"`, "ping", "")).message(t); m.Error != nil {
		t.Error("id 7 and id \"7\" are taken for one")
	}
	for range 3 {
		w.svc.Release <- struct{}{}
	}
	for range 3 {
		// On a slow machine the answer comes as a stream.
		if r, _ := receive(t, "an answer", answers); !strings.Contains(string(r.body), `"text":"released"`) {
			t.Errorf("answer %s", r.body)
		}
	}
	if m := w.post(t, one, edgetest.Legacy("7", "ping", "")).message(t); m.Error != nil {
		t.Error("the id stays taken")
	}
}
