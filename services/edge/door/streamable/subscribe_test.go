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

// The edge with the stream may hear of an update before it hears of the subscription that
// another edge took.
func TestUpdateIsHeardBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	w := start(t)
	other := w.Join(t)
	h := w.Initialize(t, mcp.V20251125, "{}")
	stream := other.Get(t, h, "")
	const tries = 10
	var uris []string
	for n := range tries {
		uris = append(uris, fmt.Sprintf("note:///by/%d", n))
	}
	heard, _ := other.Listen(t, "9", `{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`)
	for _, uri := range uris {
		began := time.Now()
		w.Svc.ResourceUpdated(uri)
		heard.Await()
		if m := w.Post(t, h, edgetest.Legacy("5", mcp.MethodSubscribe, `"uri":"`+uri+`"`)).Message(t); m.Error != nil {
			t.Fatalf("subscribe: %+v", m)
		}
		if time.Since(began) > 2*time.Second {
			continue // too slow for the edge to wait for it
		}
		for late := time.After(bustest.Promptly); ; {
			select {
			case e := <-stream.Next:
				switch {
				case e.Empty:
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
	server, out := w.Edge.Server(), slow{make(chan string, 10)}
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
		if got := edgetest.Receive(t, method, out.sent); !strings.Contains(got, method) {
			t.Errorf("heard %s, want %s", got, method)
		}
	}
	hears(mcp.NotifyAcknowledged)
	w.Svc.ResourceUpdated("note:///one")
	hears(mcp.NotifyResourceUpdated)

	lease, err := server.Lease(ctx, "streamable", gateway.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	session := func(context.Context) *store.Session { return &store.Session{Subscribed: []string{"note:///by/1"}} }
	open := make(chan struct{})
	running.Go(func() { server.Changes(ctx, lease, out, session, func() { close(open) }) })
	edgetest.Receive(t, "a stream of changes", open)
	w.Svc.ResourceUpdated("note:///by/1")
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
		w.Open(t, modern(mcp.MethodListen, ""), body).Await()
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
	w.Post(t, modern(mcp.MethodListen, ""), listen("9", `{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}`)).Refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large")
}
