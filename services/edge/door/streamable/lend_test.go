package streamable_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

const (
	// question is what a caller without a model wants sampled.
	question = `{"messages":[{"role":"user","content":{"type":"text","text":"Hi?"}}],"max_tokens":5,"include_context":"thisServer","_meta":{"progressToken":1},"task":{}}`
	asked    = `{"includeContext":"thisServer","maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"Hi?"}}]}`
	// said is what the client's model says to it.
	said   = `{"role":"assistant","content":{"type":"text","text":"Hi!"},"model":"m","stopReason":"endTurn"}`
	gotten = `{"content":{"type":"text","text":"Hi!"},"model":"m","role":"assistant","stop_reason":"endTurn"}`
)

// lending opens a session with capabilities, and its stream.
func (w *world) lending(t *testing.T, capabilities string) (header, *stream) {
	t.Helper()
	r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-11-25","capabilities":`+capabilities))
	h := header{mcp.HeaderSessionID: r.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: mcp.V20251125}
	return h, w.listen(t, w.http.URL, h)
}

func (w *world) listen(t *testing.T, at string, h header) *stream {
	t.Helper()
	r := w.request(t.Context(), t, at, h, nil)
	r.Method = http.MethodGet
	return w.open(t, r)
}

// outcome is what became of a caller's request.
type outcome struct {
	status int
	body   string
	err    error
}

// sample asks for a model over plain HTTP.
func sample(ctx context.Context, url, body string) (o outcome) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/sampling", strings.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return outcome{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return outcome{resp.StatusCode, string(b), err}
}

// borrow is sample in the background, again for as long as nobody lends.
func borrow(ctx context.Context, url, body string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		o := sample(ctx, url, body)
		for o.err == nil && strings.Contains(o.body, "No model is configured") {
			time.Sleep(5 * time.Millisecond)
			o = sample(ctx, url, body)
		}
		done <- o
	}()
	return done
}

// is requires a status, and that the body has all of some texts.
func (o outcome) is(t *testing.T, status int, has ...string) {
	t.Helper()
	if o.err != nil || o.status != status {
		t.Fatalf("%d %s %v, want %d", o.status, o.body, o.err, status)
	}
	for _, text := range has {
		if !strings.Contains(o.body, text) {
			t.Errorf("%s, want %s", o.body, text)
		}
	}
}

// request takes the server's request, which must come next, and returns its id.
func (s *stream) request(t *testing.T) string {
	t.Helper()
	m := s.await()
	if m.Method != mcp.MethodSample || string(m.Params) != asked || m.ID == nil {
		t.Fatalf("asked %+v", m)
	}
	return string(m.ID)
}

// answer posts what the client says to a request of the server.
func (w *world) answer(t *testing.T, at *httptest.Server, h header, id, rest string) {
	t.Helper()
	r := w.do(t, w.request(t.Context(), t, at.URL, h, strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,`+rest+`}`)))
	if r.StatusCode != http.StatusAccepted {
		t.Fatalf("answer: %d %s", r.StatusCode, r.body)
	}
}

// A client's stream is at one edge, its caller at another, and the client's
// answer arrives at either.
func TestLending(t *testing.T) {
	t.Parallel()
	for name, here := range map[string]bool{"the answer at the edge that asked": true, "the answer at another edge": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			_, other := w.join(t)
			at := other
			if here {
				at = w.http
			}
			sample(t.Context(), other.URL, question).is(t, http.StatusServiceUnavailable,
				`"reason":"unavailable"`, `"executed":"no"`, "BUSBAR_MODEL_PROVIDER", "connect an MCP client that offers sampling")
			h, s := w.lending(t, `{"sampling":{}}`)
			done := borrow(t.Context(), other.URL, question)
			id := s.request(t)
			stranger := w.initialize(t, mcp.V20251125)
			w.answer(t, at, stranger, id, `"result":{"role":"assistant","content":{"type":"text","text":"forged"},"model":"x"}`)
			w.answer(t, at, h, id, `"result":`+said)
			o, _ := receive(t, "the answer", done)
			o.is(t, http.StatusOK, gotten)
		})
	}
}

func TestLendingFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		status int
		has    []string
	}{
		"the user declines":      {`"error":{"code":-1,"message":"User rejected sampling request"}`, http.StatusForbidden, []string{`"reason":"forbidden"`, `"executed":"no"`, "User rejected"}},
		"the client refuses":     {`"error":{"code":-32602,"message":"Tool result missing"}`, http.StatusBadRequest, []string{`"reason":"invalid_params"`, `"executed":"no"`, "Tool result missing"}},
		"the client fails":       {`"error":{"code":-32603,"message":"no credit"}`, http.StatusServiceUnavailable, []string{`"reason":"unavailable"`, `"executed":"unknown"`, "no credit"}},
		"the answer has no role": {`"result":{"content":{"type":"text","text":"Hi!"},"model":"m"}`, http.StatusServiceUnavailable, []string{`"reason":"unavailable"`, `"executed":"yes"`}},
		"the answer is a task":   {`"result":{"task":{"taskId":"1"}}`, http.StatusServiceUnavailable, []string{`"reason":"unavailable"`, `"executed":"yes"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			h, s := w.lending(t, `{"sampling":{}}`)
			done := borrow(t.Context(), w.http.URL, question)
			w.answer(t, w.http, h, s.request(t), c.answer)
			o, _ := receive(t, "the failure", done)
			o.is(t, c.status, c.has...)
		})
	}
}

// Clients that offer nothing are not asked, and neither are those with tools
// that take none.
func TestLendingTakesTheCapability(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.lending(t, `{"roots":{}}`)
	w.lending(t, `{"sampling":null}`)
	_, s := w.lending(t, `{"sampling":{}}`)
	withTools := strings.TrimSuffix(question, "}") + `,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	o, _ := receive(t, "the refusal", borrow(t.Context(), w.http.URL, withTools))
	o.is(t, http.StatusUnprocessableEntity, `"reason":"missing_capability"`, `{"sampling":{"tools":{}}}`)
	s.close()
	eventually(t, "nobody lends", func() bool {
		return strings.Contains(sample(t.Context(), w.http.URL, question).body, "No model is configured")
	})
}

func TestLendingToMany(t *testing.T) {
	t.Parallel()
	w := start(t)
	h, s := w.lending(t, `{"sampling":{}}`)
	var all []<-chan outcome
	var ids []string
	for range 4 {
		all = append(all, borrow(t.Context(), w.http.URL, question))
		ids = append(ids, s.request(t))
	}
	sample(t.Context(), w.http.URL, question).is(t, http.StatusServiceUnavailable, `"reason":"overloaded"`, `"executed":"no"`)
	for i, id := range ids {
		w.answer(t, w.http, h, id, `"result":`+said)
		o, _ := receive(t, "an answer", all[i])
		o.is(t, http.StatusOK, gotten)
	}
}

// The client goes while it is asked.
func TestLenderGone(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	_, s := w.lending(t, `{"sampling":{}}`)
	done := borrow(t.Context(), other.URL, question)
	s.request(t)
	s.close()
	o, _ := receive(t, "the loss", done)
	o.is(t, http.StatusGatewayTimeout, `"reason":"peer_lost"`, `"executed":"unknown"`)
}

// The caller goes while the client is asked.
func TestBorrowerGone(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	_, s := w.lending(t, `{"sampling":{}}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := borrow(ctx, other.URL, question)
	id := s.request(t)
	cancel()
	if m := s.await(); m.Method != mcp.NotifyCancelled || m.Param("requestId") != id {
		t.Errorf("told %+v", m)
	}
	receive(t, "the caller's end", done)
}

// The edge with the client's stream closes: what is asked is still answered.
func TestLendingEdgeCloses(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	h, s := w.lending(t, `{"sampling":{}}`)
	done := borrow(t.Context(), other.URL, question)
	id := s.request(t)
	w.edge.Server().Close()
	eventually(t, "no more is asked", func() bool {
		return strings.Contains(sample(t.Context(), other.URL, question).body, "No model is configured")
	})
	w.answer(t, other, h, id, `"result":`+said)
	o, _ := receive(t, "the answer", done)
	o.is(t, http.StatusOK, gotten)
	s.ends()
}

// Of two streams of a session the younger counts, and none of one that ended.
func TestLendingStreams(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	h, old := w.lending(t, `{"sampling":{}}`)
	turn := func(streams ...*stream) (ended bool) {
		done := borrow(t.Context(), w.http.URL, question)
		for {
			var e event
			var more bool
			select {
			case e, more = <-streams[0].next:
				ended = ended || !more
			case e, more = <-streams[len(streams)-1].next:
			case o := <-done:
				o.is(t, http.StatusOK, gotten)
				return ended
			case <-time.After(time.Minute):
				t.Fatal("no answer in 10 s")
			}
			switch {
			case more && !e.empty:
				w.answer(t, w.http, h, string(e.ID), `"result":`+said)
			case !more && len(streams) == 1:
				t.Fatal("the stream ended")
			case !more:
				streams = streams[1:]
			}
		}
	}
	turn(old)
	young := w.listen(t, other.URL, h)
	for begun := time.Now(); !turn(old, young); {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the older stream is asked for ever")
		}
	}
	turn(young)
	r := w.request(t.Context(), t, other.URL, h, nil)
	r.Method = http.MethodDelete
	w.do(t, r)
	eventually(t, "a session that has ended lends nothing", func() bool {
		return strings.Contains(sample(t.Context(), w.http.URL, question).body, "No model is configured")
	})
}
