package streamable_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// M2: the edge's own question outlives the connection and the edge.
func TestM2AnApprovalIsAnsweredAfterTheConnectionIsGone(t *testing.T) {
	t.Parallel()
	const agree = `"result":{"action":"accept","content":{"approve":true}}`
	setup := func(t *testing.T, tool string) (w *world, one, two *replica, h header, s *stream, primed string, q edgetest.Message) {
		t.Parallel()
		w = &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
		w.svc.Start(t, bustest.Connect(t, w.bus))
		one, two = w.replica(t), w.replica(t)
		t.Cleanup(func() { one.kill(); two.kill() }) // a failed test leaves questions open
		w.http, w.client = one.Server, edgetest.Client
		t.Cleanup(w.client.CloseIdleConnections)
		r := w.post(t, header{}, edgetest.Legacy("0", "initialize", `"protocolVersion":"`+mcp.V20251125+`","capabilities":{"elicitation":{}}`))
		h = header{mcp.HeaderSessionID: r.Header.Get(mcp.HeaderSessionID), mcp.HeaderProtocolVersion: mcp.V20251125}
		s = w.begin(t, one, h, tool)
		primed = s.event().id
		q = s.await()
		if q.Method != mcp.MethodElicit || !strings.Contains(q.Param("message"), "Let "+tool) {
			t.Fatalf("asked %+v %s", q, q.Params)
		}
		return
	}
	for name, same := range map[string]bool{"at another edge": false, "at the same edge": true} {
		for at, early := range map[string]bool{"after the question": false, "before the question": true} {
			t.Run("the connection breaks "+at+", back "+name, func(t *testing.T) {
				w, one, two, h, s, primed, q := setup(t, "approved")
				last := s.id
				s.close()
				if same {
					two = one
				}
				if early {
					last = primed
				}
				again := w.resume(t, two, h, last)
				if early {
					if m := again.await(); m.Method != mcp.MethodElicit || string(m.ID) != string(q.ID) {
						t.Fatalf("the question is not the same: %+v", m)
					}
				}
				w.reply(t, two, h, q, agree)
				again.result("7", "done")
				if n := w.svc.Calls.Load(); n != 1 {
					t.Errorf("the tool ran %d times", n)
				}
			})
		}
	}
	t.Run("the edge is killed", func(t *testing.T) {
		w, one, two, h, s, _, q := setup(t, "approved")
		one.kill()
		again := w.resume(t, two, h, s.id)
		next := again.await()
		if next.Method != mcp.MethodElicit || string(next.ID) == string(q.ID) {
			t.Fatalf("want the question once more, got %+v", next)
		}
		w.reply(t, two, h, next, agree)
		again.result("7", "done")
		if n := w.svc.Calls.Load(); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
	})
	t.Run("the edge is killed when the tool asks what was agreed to", func(t *testing.T) {
		w, one, two, h, s, _, q := setup(t, "remember_approved")
		w.reply(t, one, h, q, agree)
		s.await() // the tool's own question
		one.kill()
		again := w.resume(t, two, h, s.id)
		w.reply(t, two, h, again.await(), `"result":{"action":"accept","content":{}}`)
		again.result("7", "kept secret")
	})
}
