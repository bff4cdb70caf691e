package streamable_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestBridge makes a legacy client call a tool that asks for input. The client answers
// sometimes at the edge that asked, sometimes at another one.
func TestBridge(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	session := func(t *testing.T) header {
		r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}}`))
		return header{mcp.HeaderSessionID: r.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: mcp.V20250618}
	}
	// asked calls the tool and returns the stream and the id of the question.
	asked := func(t *testing.T, h header) (*stream, string) {
		s := w.open(t, w.request(t.Context(), t, w.http.URL, h, strings.NewReader(edgetest.LegacyCall("7", "ask", `{}`))))
		q := s.await()
		if q.Method != mcp.MethodElicit || !strings.Contains(string(q.Params), `"requestedSchema"`) {
			t.Fatalf("question: %+v", q)
		}
		return s, string(q.ID)
	}
	answer := func(t *testing.T, at *httptest.Server, h header, id, rest string) {
		r := w.do(t, w.request(t.Context(), t, at.URL, h, strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,`+rest+`}`)))
		if r.StatusCode != http.StatusAccepted {
			t.Fatalf("answer: %d %s", r.StatusCode, r.body)
		}
	}
	for name, at := range map[string]*httptest.Server{"same edge": w.http, "other edge": other} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := session(t)
			s, id := asked(t, h)
			// This client may not answer.
			answer(t, at, session(t), id, `"result":{"action":"cancel"}`)
			answer(t, at, h, id, `"result":{"action":"accept","content":{}}`)
			if m := s.await(); string(m.ID) != "7" || m.Text() != "accept" {
				t.Errorf("result: %+v", m)
			}
			s.ends()
		})
	}
	t.Run("the client refuses", func(t *testing.T) {
		t.Parallel()
		h := session(t)
		s, id := asked(t, h)
		answer(t, other, h, id, `"error":{"code":-1,"message":"not now"}`)
		if m := s.await(); m.Error == nil || m.Error.Code != mcp.CodeCancelled || !strings.Contains(m.Error.Message, "not now") {
			t.Errorf("result: %+v", m)
		}
	})
	t.Run("the call is cancelled", func(t *testing.T) {
		t.Parallel()
		h := session(t)
		s, id := asked(t, h)
		w.post(t, h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if m := s.await(); m.Method != mcp.NotifyCancelled || !strings.Contains(string(m.Params), id) {
			t.Errorf("the question is still open: %+v", m)
		}
		s.ends()
	})
	t.Run("the session ends, at another edge", func(t *testing.T) {
		t.Parallel()
		h := session(t)
		s, id := asked(t, h)
		r := w.request(t.Context(), t, other.URL, h, nil)
		r.Method = http.MethodDelete
		if got := w.do(t, r); got.StatusCode != http.StatusNoContent {
			t.Fatalf("%d %s", got.StatusCode, got.body)
		}
		if m := s.await(); m.Method != mcp.NotifyCancelled || !strings.Contains(string(m.Params), id) {
			t.Errorf("the question is still open: %+v", m)
		}
		s.ends()
	})
	t.Run("a client without the capability", func(t *testing.T) {
		t.Parallel()
		r := w.post(t, w.initialize(t, mcp.V20250618), edgetest.LegacyCall("1", "ask", `{}`))
		r.refused(t, http.StatusOK, mcp.CodeInvalidRequest, "missing_capability")
	})
	t.Run("a client that takes no stream", func(t *testing.T) {
		t.Parallel()
		r := w.post(t, merge(session(t), header{"Accept": "application/json"}), edgetest.LegacyCall("1", "ask", `{}`))
		r.refused(t, http.StatusOK, mcp.CodeInvalidRequest, "missing_capability")
	})
}
