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
	w := start(t)
	one, two := w.Edge, w.Join(t)
	const note, other = "note:///one", "note:///by/7"
	h := w.Initialize(t, mcp.V20251125, "{}")
	w.Post(t, h, edgetest.Legacy("5", mcp.MethodSubscribe, `"uri":"`+note+`"`))
	get := func(at *edgetest.Edge, since string) *edgetest.Stream { return at.Get(t, h, since) }
	listed := func(at *edgetest.Edge, prompt string) {
		bustest.Eventually(t, "the edge lists prompt "+prompt, func() bool {
			return strings.Contains(string(at.Post(t, h, edgetest.Legacy("1", "prompts/list", "")).Bytes), prompt)
		})
	}
	prompt := func(name string) {
		w.Svc.AddPrompt(mcp.Prompt{Name: name}, func(context.Context, *service.Call, map[string]string) ([]mcp.PromptMessage, error) {
			return nil, nil
		}, nil)
	}

	s := get(one, "")
	if e := s.Event(); !e.Empty || e.ID == "" || e.Retry == "" {
		t.Fatalf("priming event: %+v", e)
	}
	one.Kill()
	s.Ends()
	prompt("while away")
	listed(two, "while away")
	w.Svc.ResourceUpdated(note)
	w.Svc.ResourceUpdated(other)

	again := get(two, s.ID)
	if m := again.Await(); m.Method != mcp.NotifyPromptsChanged {
		t.Errorf("want prompts changed, got %+v", m)
	}
	if m := again.Await(); m.Method != mcp.NotifyResourceUpdated || m.Param("uri") != `"`+note+`"` {
		t.Errorf("want note updated, got %+v", m)
	}
	t.Run("then it goes on", func(t *testing.T) {
		prompt("while here")
		m := again.Await()
		for m.Method == mcp.NotifyResourceUpdated { // told twice within the skew of clocks
			m = again.Await()
		}
		if m.Method != mcp.NotifyPromptsChanged {
			t.Errorf("want prompts changed, got %+v", m)
		}
	})
	t.Run("the youngest stream gets what comes", func(t *testing.T) {
		young := get(two, again.ID)
		prompt("for the youngest")
		for m := young.Await(); m.Method != mcp.NotifyPromptsChanged; m = young.Await() {
			if m.Method != mcp.NotifyResourceUpdated { // told twice within the skew of clocks
				t.Errorf("missed: %+v", m)
			}
		}
		for e := range again.Next {
			if !e.Empty && e.Method != mcp.NotifyResourceUpdated { // told twice, as above
				t.Errorf("one more message: %+v", e.Message)
			}
		}
		young.Close()
	})
	t.Run("who was away for too long is told of all it subscribes to", func(t *testing.T) {
		id := strings.Split(again.ID, "-")
		long := get(two, "c-1000-"+id[2])
		if m := long.Await(); m.Method != mcp.NotifyPromptsChanged {
			t.Errorf("want prompts changed, got %+v", m)
		}
		if m := long.Await(); m.Method != mcp.NotifyResourceUpdated || m.Param("uri") != `"`+note+`"` {
			t.Errorf("want note updated, got %+v", m)
		}
		long.Close()
	})
	t.Run("ids that no edge gave are refused", func(t *testing.T) {
		for _, id := range []string{"c-", "c-x-y", "c-1-2-3", "c-99999999999999999999-00"} {
			if r := edgetest.Do(t, two.Since(t, h, id)); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d %s", id, r.StatusCode, r.Bytes)
			}
		}
	})
}
