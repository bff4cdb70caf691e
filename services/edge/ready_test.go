package edge_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// An edge whose trail nobody reads says so, and what to do.
func TestB11NobodyReadsTheTrail(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	h := e.Handler(door.Guard{})
	const advice = `start "busbar audit serve"`
	if all := e.Warnings(); len(all) != 1 || !strings.Contains(all[0], advice) {
		t.Errorf("%q", all)
	}
	if status, body := get(t, h, "/readyz"); status != http.StatusOK || !strings.Contains(body, advice) {
		t.Errorf("%d %s", status, body)
	}
	a, err := registry.Announce(bustest.Connect(t, w.Bus), gateway.AuditService, "one", "1.0.0", &busv1.Catalogue{Service: gateway.AuditService})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Withdraw(t.Context()) })
	bustest.Eventually(t, "the edge knows that somebody reads", func() bool { return len(e.Warnings()) == 0 })
	if status, body := get(t, h, "/readyz"); status != http.StatusOK || strings.Contains(body, advice) || !strings.Contains(body, "audit: 0 KiB of 512 MiB wait") {
		t.Errorf("%d %s", status, body)
	}
}

// The edge's own check shows why an audit service does not write, until it writes.
func TestAuditServiceWritesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	h := e.Handler(door.Guard{})
	stopped := atomic.Bool{}
	s := service.New(gateway.AuditService, service.WithLogger(bustest.Logger(t)))
	s.Handle(gateway.AuditQuery, func(_ context.Context, _ *service.Call, name string, _ []byte) (any, error) {
		if name != "state" || !stopped.Load() {
			return map[string]string{}, nil
		}
		return map[string]string{"stopped": "row 4 is behind the end"}, nil
	})
	running, err := s.Start(t.Context(), bustest.Connect(t, w.Bus))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop(context.Background()) })
	becomes := func(what string, says bool) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			status, body := get(t, h, "/readyz")
			return status == http.StatusOK && !strings.Contains(body, "no audit service") && says == strings.Contains(body, "the audit service writes nothing: row 4 is behind the end")
		})
	}
	becomes("nothing is said while it writes", false)
	stopped.Store(true)
	becomes("the edge says why nothing is written", true)
	stopped.Store(false)
	becomes("it writes again", false)
}

// While events are put aside, the edge says how many and what to do, and stays ready.
func TestReadyNamesWhatIsPutAside(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	h := e.Handler(door.Guard{})
	a, err := registry.Announce(bustest.Connect(t, w.Bus), gateway.AuditService, "one", "1.0.0", &busv1.Catalogue{Service: gateway.AuditService})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Withdraw(t.Context()) })
	js := bustest.Connect(t, w.Bus).JetStream()
	for range 3 {
		if _, err := js.Publish(t.Context(), "mcp.dlq.audit", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(what string, says bool) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			status, body := get(t, h, "/readyz")
			return status == http.StatusOK && says == strings.Contains(body, `; 3 events could not be written and are in stream DLQ, 1 of 65536 KiB: run "busbar audit redeliver"`)
		})
	}
	becomes("the edge names them", true)
	dead, err := js.Stream(t.Context(), "DLQ")
	if err == nil {
		err = dead.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	becomes("nothing is said any more", false)
}

// An edge that refuses every call with an effect is not ready, and says why.
func TestS9NotReadyWhileEffectsAreRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	h := e.Handler(door.Guard{})
	nc, err := nats.Connect(w.Bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	becomes := func(status int, detail string) {
		t.Helper()
		body := ""
		bustest.Eventually(t, detail, func() bool {
			var got int
			got, body = get(t, h, "/readyz")
			return got == status && strings.Contains(body, detail)
		})
		_, figures := get(t, e.Handler(door.Guard{Loopback: true}), "/healthz")
		if figures != "ok\n" {
			t.Errorf("it is not alive: %s", figures)
		}
	}
	s, err := js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = 1000
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "mcp.audit.other", make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	becomes(http.StatusServiceUnavailable, "calls with effects are refused: stream AUDIT is nearly full")
	cfg.MaxBytes = 1 << 20
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	becomes(http.StatusOK, "audit: 1 KiB of 1 MiB")
	if err := js.DeleteStream(t.Context(), "AUDIT"); err != nil {
		t.Fatal(err)
	}
	becomes(http.StatusServiceUnavailable, "stream AUDIT is not there: start an edge, which makes it")
	bustest.Connect(t, w.Bus)
	becomes(http.StatusOK, "audit: 0 KiB")
}
