package edge_test

import (
	"context"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a bus with a service.
type world struct {
	bus string
	svc *edgetest.Service
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{bus: bustest.Server(t), svc: edgetest.New("svc")}
	w.svc.Start(t, bustest.Connect(t, w.bus))
	return w
}

// join adds an edge.
func (w *world) join(t *testing.T) (*edge.Edge, *bus.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	conn := bustest.Connect(t, w.bus)
	e, err := edge.New(ctx, conn, edge.Config{Version: "1", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	return e, conn
}

func receive[V any](t *testing.T, what string, c <-chan V) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}
