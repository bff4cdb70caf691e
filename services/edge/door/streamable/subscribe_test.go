package streamable_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestResourceUpdates brings an update to exactly those who subscribed, in
// either era, at whichever edge their stream is.
func TestResourceUpdates(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	const one, two = "note:///one", "note:///by/7"
	h := w.initialize(t, mcp.V20251125)
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	get.Header.Set("Accept", "text/event-stream")
	for name, v := range h {
		get.Header.Set(name, v)
	}
	old := w.open(t, get)
	subscribe := func(method, uri string) reply {
		return w.post(t, h, edgetest.Legacy("5", method, `"uri":"`+uri+`"`))
	}
	subscribe(mcp.MethodSubscribe, "nothing:///").refused(t, http.StatusOK, mcp.CodeLegacyNoResource, "unknown_resource")
	w.post(t, header{}, edgetest.Legacy("5", mcp.MethodSubscribe, `"uri":"`+one+`"`)).refused(t, http.StatusBadRequest, mcp.CodeInvalidRequest, "invalid_request")
	for _, uri := range []string{one, two, one} {
		if m := subscribe(mcp.MethodSubscribe, uri).message(t); m.Error != nil || string(m.Result) != "{}" {
			t.Fatalf("subscribe: %+v", m)
		}
	}
	stream := w.open(t, w.request(t.Context(), t, w.http.URL, modern(mcp.MethodListen, ""), strings.NewReader(listen("9", `{"resourceSubscriptions":["`+two+`","`+two+`"]}`))))
	if m := stream.await(); m.Method != mcp.NotifyAcknowledged || !strings.Contains(string(m.Params), `"resourceSubscriptions":["`+two+`"]`) {
		t.Fatalf("acknowledged: %+v", m)
	}

	w.svc.ResourceUpdated(one)
	w.svc.ResourceUpdated("nothing:///")
	if m := old.await(); m.Method != mcp.NotifyResourceUpdated || string(m.Params) != `{"uri":"`+one+`"}` {
		t.Errorf("old client: %+v", m)
	}
	if m := subscribe(mcp.MethodUnsubscribe, one).message(t); m.Error != nil {
		t.Fatalf("unsubscribe: %+v", m)
	}
	// The edge with the stream hears of it a moment after the one that was told.
	bustest.Eventually(t, "the old client hears of one resource alone", func() bool {
		w.svc.ResourceUpdated(one)
		w.svc.ResourceUpdated(two)
		m := old.await()
		if string(m.Params) == `{"uri":"`+one+`"}` {
			old.await()
			return false
		}
		return string(m.Params) == `{"uri":"`+two+`"}`
	})
	if m := stream.await(); m.Method != mcp.NotifyResourceUpdated || string(m.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":9},"uri":"`+two+`"}` {
		t.Errorf("modern client: %+v", m)
	}
}

// The edge with the stream may hear of an update before it hears of the subscription that
// another edge took.
func TestUpdateIsHeardBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	h := w.initialize(t, mcp.V20251125)
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	get.Header.Set("Accept", "text/event-stream")
	for name, v := range h {
		get.Header.Set(name, v)
	}
	stream := w.open(t, get)
	const tries = 20
	var uris []string
	for n := range tries {
		uris = append(uris, fmt.Sprintf("note:///by/%d", n))
	}
	heard := w.open(t, w.request(t.Context(), t, other.URL, modern(mcp.MethodListen, ""), strings.NewReader(listen("9", `{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`))))
	heard.await() // acknowledged
	for _, uri := range uris {
		began := time.Now()
		w.svc.ResourceUpdated(uri)
		heard.await()
		if m := w.post(t, h, edgetest.Legacy("5", mcp.MethodSubscribe, `"uri":"`+uri+`"`)).message(t); m.Error != nil {
			t.Fatalf("subscribe: %+v", m)
		}
		if time.Since(began) > 2*time.Second {
			continue // too slow for the edge to wait for it
		}
		for m := stream.await(); m.Param("uri") != `"`+uri+`"`; m = stream.await() {
			if m.Method != mcp.NotifyResourceUpdated {
				t.Fatalf("got %+v", m)
			}
		}
		return
	}
	t.Fatal("no subscription within 2 s of an update")
}
