package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// TestResourceUpdates sends an update to exactly the clients that subscribed, modern or
// legacy, at whichever edge their stream is.
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

	// The edge with the stream may hear of the subscription later than it waits for it.
	var m edgetest.Message
	bustest.Eventually(t, "the old client hears of an update", func() bool {
		w.svc.ResourceUpdated(one)
		w.svc.ResourceUpdated("nothing:///")
		for late := time.After(bustest.Promptly); ; {
			select {
			case e := <-old.next:
				if m = e.Message; !e.empty {
					return true
				}
			case <-late:
				return false
			}
		}
	})
	if m.Method != mcp.NotifyResourceUpdated || string(m.Params) != `{"uri":"`+one+`"}` {
		t.Errorf("old client: %+v", m)
	}
	if m := subscribe(mcp.MethodUnsubscribe, one).message(t); m.Error != nil {
		t.Fatalf("unsubscribe: %+v", m)
	}
	// The edge with the stream hears of it a moment after the edge that got the request.
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
	const tries = 10
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
		for late := time.After(bustest.Promptly); ; {
			select {
			case e := <-stream.next:
				switch {
				case e.empty:
					continue
				case e.Method != mcp.NotifyResourceUpdated:
					t.Fatalf("got %+v", e.Message)
				case e.Param("uri") == `"`+uri+`"`:
					return
				}
				continue
			case <-late: // news of the subscription may have taken longer than the edge waits
			}
			break
		}
	}
	t.Fatal("of no subscription within 2 s of an update the stream has heard")
}

// slow is a client that reads notifications only when it needs them, so the edge drops
// those that it may drop.
type slow struct{ sent chan string }

func (s slow) Send(message []byte) bool   { s.sent <- string(message); return true }
func (s slow) Notify([]byte)              {}
func (s slow) Respond(int, []byte, error) {}

// The messages that a stream is opened for are not dropped: a slow client gets them
// later.
func TestSlowClientsHearOfEveryChange(t *testing.T) {
	t.Parallel()
	w := start(t)
	server, out := w.edge.Server(), slow{make(chan string, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	m, err := mcp.Parse([]byte(listen("9", `{"resourceSubscriptions":["note:///one"]}`)), mcp.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		server.Handle(ctx, &protocol.Request{Message: &m, Door: "streamable", Version: mcp.Modern}, out)
	})
	hears := func(method string) {
		t.Helper()
		if got, _ := receive(t, method, out.sent); !strings.Contains(got, method) {
			t.Errorf("heard %s, want %s", got, method)
		}
	}
	hears(mcp.NotifyAcknowledged)
	w.svc.ResourceUpdated("note:///one")
	hears(mcp.NotifyResourceUpdated)

	lease, err := server.Lease(ctx, "streamable", gateway.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	session := func(context.Context) *store.Session { return &store.Session{Subscribed: []string{"note:///by/1"}} }
	open := make(chan struct{})
	running.Go(func() { server.Changes(ctx, lease, out, session, func() { close(open) }) })
	receive(t, "a stream of changes", open)
	w.svc.ResourceUpdated("note:///by/1")
	hears(mcp.NotifyResourceUpdated)
}

// A stream that waits for days does not keep the rest of its client's request. Not
// parallel, because it measures all memory.
func TestStreamsForgetTheirBodies(t *testing.T) {
	w := start(t)
	const streams, most = 32, 10 << 20
	large := strings.Repeat("x", 400<<10)
	body := edgetest.Request("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true},"a":"`+large+`","b":"`+large+`"`)
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for range streams {
		w.open(t, w.request(t.Context(), t, w.http.URL, modern(mcp.MethodListen, ""), strings.NewReader(body))).await()
	}
	bustest.Eventually(t, "bodies are forgotten", func() bool { return held() < before+most })
}

// One stream has room for no more names than a session.
func TestNamesOfOneStream(t *testing.T) {
	t.Parallel()
	w := start(t)
	var uris []string
	for n := range 40 {
		uris = append(uris, fmt.Sprintf("note:///by/%d%s", n, strings.Repeat("x", 1000)))
	}
	w.post(t, modern(mcp.MethodListen, ""), listen("9", `{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`)).refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large")
}
