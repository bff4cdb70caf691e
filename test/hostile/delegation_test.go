package hostile

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// delegation returns the delegation that planner gets with a call of its tool, and planner's
// connection.
func (w *world) delegation(t *testing.T) (given []byte, conn *bus.Conn) {
	t.Helper()
	conn = w.fleet.Join(t, "planner", quiet)
	came := make(chan []byte, 64)
	server, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "planner", Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		came <- req.Delegation
		return &busv1.Result{Json: []byte(`{"content":[]}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Drain(context.Background()) })
	announcer, err := registry.Announce(conn, "planner", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "planner", Tools: []*busv1.Tool{{
		Name: "plan", Json: []byte(`{"name":"plan","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`), CallsTools: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { announcer.Withdraw(context.Background()) })
	h := w.edge.Handler(door.Guard{Loopback: true})
	bustest.Eventually(t, "the tool plan", func() bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/tools/plan", strings.NewReader("{}"))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Code == http.StatusOK
	})
	return <-came, conn
}

func call(t *testing.T, conn *bus.Conn, as string, delegation []byte) error {
	t.Helper()
	caller, err := bus.NewGatewayCaller(conn, as)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	_, err = caller.Call(t.Context(), bus.Gateway, &busv1.Request{
		Method: mcp.MethodToolsCall, Name: "append", Delegation: delegation, Identity: &busv1.Identity{Principal: "ceo", Tenant: "acme"},
	}, nil)
	return err
}

// recorded is a call by planner, once more where the audit trail could not take it: that has not
// run, and comes of a machine that stands still for a second.
func recorded(t *testing.T, planner *bus.Conn, given []byte) (err error) {
	t.Helper()
	bustest.Eventually(t, "the audit trail takes the call", func() bool {
		err = call(t, planner, "planner", given)
		return !fault.Is(err, fault.Unavailable)
	})
	return err
}

// A delegation is valid for the service that it was given to. A service that calls with another's
// delegation, with a forged one, or as another service, is refused. Attempts that an edge sees are
// in the audit trail.
func TestADelegationIsForItsService(t *testing.T) {
	w := newWorld(t)
	given, planner := w.delegation(t)
	if err := recorded(t, planner, given); err != nil || w.ran.Load() != 1 {
		t.Fatalf("the control: %v, %d ran", err, w.ran.Load())
	}
	var mu sync.Mutex
	var refused []*auditv1.AuditEvent
	if _, err := w.god.Subscribe("mcp.audit.*", func(m *nats.Msg) {
		e := &auditv1.AuditEvent{}
		if proto.Unmarshal(m.Data, e) == nil && e.Outcome == string(fault.Forbidden) {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, e)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.god.Flush(); err != nil {
		t.Fatal(err)
	}
	own, err := proto.Marshal(&busv1.Delegation{Service: "evil", Identity: &busv1.Identity{Principal: "ceo"}, ExpiresUnixNano: 1 << 63})
	if err != nil {
		t.Fatal(err)
	}
	evil := w.fleet.Join(t, "evil", quiet)
	seen := 0
	for name, delegation := range map[string][]byte{"another's": given, "of its own making": own, "none": nil, "another's, cut": given[:len(given)-1]} {
		if err := call(t, evil, "evil", delegation); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
		seen++
		bustest.Eventually(t, "it is in the audit trail", func() bool { mu.Lock(); defer mu.Unlock(); return len(refused) == seen })
	}
	// As planner evil is not heard at all.
	if err := call(t, w.fleet.Join(t, "evil", quiet), "planner", given); !fault.Is(err, fault.PeerLost) {
		t.Errorf("as planner: %v", err)
	}
	if n := w.ran.Load(); n != 1 {
		t.Errorf("%d ran", n-1)
	}
}

// An edge of a desktop, on a bus that it does not run, takes no calls of tools: it is
// not known to have the policy of the others.
func TestH4AGuestTakesNoCallsOfTools(t *testing.T) {
	w := newWorld(t)
	given, planner := w.delegation(t)
	w.newEdge(t, edge.Config{Guest: true})
	if err := recorded(t, planner, given); err != nil {
		t.Fatalf("the control: %v", err)
	}
	w.edge.Close()
	if err := call(t, planner, "planner", given); !fault.Is(err, fault.PeerLost) { // god alone hears it
		t.Errorf("a guest: %v", err)
	}
	w.newEdge(t, edge.Config{})
	if err := recorded(t, planner, given); err != nil {
		t.Errorf("another edge: %v", err)
	}
}
