package edgetest

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// World is a bus with the service svc, and edges. Its own methods of an edge are those of
// the first one.
type World struct {
	Bus string
	Svc *Service
	*Edge
	Edges []*Edge
}

// Edge is an edge with HTTP in front.
type Edge struct {
	*edge.Edge
	Conn *bus.Conn
	HTTP *httptest.Server
}

// StartBus makes a world without edges; change gets the service before it starts.
func StartBus(t testing.TB, change ...func(*Service)) *World {
	t.Helper()
	w := &World{Bus: bustest.Server(t), Svc: New("svc")}
	for _, f := range change {
		f(w.Svc)
	}
	w.Svc.Start(t, bustest.Connect(t, w.Bus))
	return w
}

// Start makes a world with one edge.
func Start(t testing.TB, change ...func(*edge.Config)) *World {
	t.Helper()
	w := StartBus(t)
	w.Join(t, change...)
	return w
}

// As gives an edge an authenticator.
func As(a gateway.Authenticator) func(*edge.Config) {
	return func(cfg *edge.Config) { cfg.Authenticator = a }
}

// Join adds an edge.
func (w *World) Join(t testing.TB, change ...func(*edge.Config)) *Edge {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	cfg := edge.Config{Version: "1", Logger: bustest.Logger(t)}
	for _, f := range change {
		f(&cfg)
	}
	e := &Edge{Conn: bustest.Connect(t, w.Bus)}
	var err error
	if e.Edge, err = edge.New(ctx, e.Conn, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.Svc.Name()); err != nil {
		t.Fatal(err)
	}
	e.HTTP = httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(e.HTTP.Close)
	if w.Edges = append(w.Edges, e); w.Edge == nil {
		w.Edge = e
	}
	return e
}

// Kill takes the edge off the bus and cuts its clients off, without telling either.
func (e *Edge) Kill() {
	e.Conn.Close()
	e.HTTP.CloseClientConnections()
	e.Close()
}

// Receive takes the next value, which must come.
func Receive[V any](t testing.TB, what string, c <-chan V) V {
	t.Helper()
	v, _ := Next(t, what, c)
	return v
}

// Next takes the next value or the end, one of which must come.
func Next[V any](t testing.TB, what string, c <-chan V) (V, bool) {
	t.Helper()
	select {
	case v, ok := <-c:
		return v, ok
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}

// Send passes a value to a tool of the service, which must take it.
func Send(t testing.TB, what string, c chan<- struct{}) {
	t.Helper()
	select {
	case c <- struct{}{}:
	case <-time.After(bustest.Patience):
		t.Fatalf("not taken in %v: %s", bustest.Patience, what)
	}
}
