package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// serve puts a service on the bus from this process until the returned stop is
// called, at the latest at the test's end.
func serve(t testing.TB, nats string, s *service.Service) (stop func()) {
	t.Helper()
	conn := bustest.Connect(t, nats)
	service.WithLogger(bustest.Logger(t))(s)
	r, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Stop(ctx)
	}
	t.Cleanup(stop)
	return stop
}

// edgeWithTests is an edge in its own process, with the test services on its
// bus.
type edgeWithTests struct {
	ready
	process *process
	ledger  *testservice.Ledger
}

func startTestEdge(t testing.TB) *edgeWithTests {
	t.Helper()
	nats := bustest.Server(t)
	e := &edgeWithTests{ledger: &testservice.Ledger{}}
	serve(t, nats, testservice.New(e.ledger))
	serve(t, nats, testservice.NewWeather())
	e.process, e.ready = startEdge(t, nats)
	return e
}

// awaitInstances waits until so many instances of a service are on the bus.
func awaitInstances(t testing.TB, nats, name string, n int) {
	t.Helper()
	conn := bustest.Connect(t, nats)
	changed := make(chan struct{}, 64)
	r, err := registry.Watch(t.Context(), conn, func([]registry.Service) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	deadline := time.After(20 * time.Second)
	for {
		for _, s := range r.Services() {
			if s.Name == name && len(s.Instances) == n {
				return
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not %d instances of %s after 20 s: %v", n, name, r.Services())
		}
	}
}

// named is a service with one tool, both of that name.
func named(name string) *service.Service {
	s := service.New(name)
	service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, struct{}) (string, error) { return name, nil })
	return s
}
