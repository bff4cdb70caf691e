package streamable_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestMissedChanges tells a client that was away, at another edge, what changed
// meanwhile, and nothing else.
func TestMissedChanges(t *testing.T) {
	t.Parallel()
	w := &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, w.bus))
	one, two := w.replica(t), w.replica(t)
	w.http, w.client = one.Server, edgetest.Client
	t.Cleanup(w.client.CloseIdleConnections)
	const note, other = "note:///one", "note:///by/7"
	h := w.initialize(t, mcp.V20251125)
	w.post(t, h, edgetest.Legacy("5", mcp.MethodSubscribe, `"uri":"`+note+`"`))
	get := func(at *replica, since string) *stream {
		r := w.resumption(t, at, h, since)
		if since == "" {
			r.Header.Del("Last-Event-ID")
		}
		return w.open(t, r)
	}
	listed := func(at *replica, prompt string) {
		bustest.Eventually(t, "the edge lists prompt "+prompt, func() bool {
			w.http = at.Server
			return strings.Contains(string(w.post(t, h, edgetest.Legacy("1", "prompts/list", "")).body), prompt)
		})
	}
	prompt := func(name string) {
		w.svc.AddPrompt(mcp.Prompt{Name: name}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return nil, nil
		}, nil)
	}

	s := get(one, "")
	if e := s.event(); !e.empty || e.id == "" || e.retry == "" {
		t.Fatalf("priming event: %+v", e)
	}
	one.kill()
	s.ends()
	prompt("while away")
	listed(two, "while away")
	w.svc.ResourceUpdated(note)
	w.svc.ResourceUpdated(other)

	again := get(two, s.id)
	if m := again.await(); m.Method != mcp.NotifyPromptsChanged {
		t.Errorf("want prompts changed, got %+v", m)
	}
	if m := again.await(); m.Method != mcp.NotifyResourceUpdated || m.Param("uri") != `"`+note+`"` {
		t.Errorf("want note updated, got %+v", m)
	}
	t.Run("then it goes on", func(t *testing.T) {
		prompt("while here")
		m := again.await()
		for m.Method == mcp.NotifyResourceUpdated { // told twice within the skew of clocks
			m = again.await()
		}
		if m.Method != mcp.NotifyPromptsChanged {
			t.Errorf("want prompts changed, got %+v", m)
		}
	})
	t.Run("the youngest stream gets what comes", func(t *testing.T) {
		young := get(two, again.id)
		prompt("for the youngest")
		for m := young.await(); m.Method != mcp.NotifyPromptsChanged; m = young.await() {
			if m.Method != mcp.NotifyResourceUpdated { // told twice within the skew of clocks
				t.Errorf("missed: %+v", m)
			}
		}
		for e := range again.next {
			if !e.empty && e.Method != mcp.NotifyResourceUpdated { // told twice, as above
				t.Errorf("one more message: %+v", e.Message)
			}
		}
		young.close()
	})
	t.Run("who was away for too long is told of all it subscribes to", func(t *testing.T) {
		id := strings.Split(again.id, "-")
		long := get(two, "c-1000-"+id[2])
		if m := long.await(); m.Method != mcp.NotifyPromptsChanged {
			t.Errorf("want prompts changed, got %+v", m)
		}
		if m := long.await(); m.Method != mcp.NotifyResourceUpdated || m.Param("uri") != `"`+note+`"` {
			t.Errorf("want note updated, got %+v", m)
		}
		long.close()
	})
	t.Run("ids that no edge gave are refused", func(t *testing.T) {
		for _, id := range []string{"c-", "c-x-y", "c-1-2-3", "c-99999999999999999999-00"} {
			if r := w.do(t, w.resumption(t, two, h, id)); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d %s", id, r.StatusCode, r.body)
			}
		}
	})
}
