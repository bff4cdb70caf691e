package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// fleets are the buses that processes run, by URL.
var fleets sync.Map

// join joins a bus as a user, if it has any.
func join(t testing.TB, nats, user string) *bus.Conn {
	t.Helper()
	if f, ok := fleets.Load(nats); ok {
		return f.(*bustest.Fleet).Join(t, user, nil)
	}
	return bustest.Connect(t, nats)
}

// proof is the flag that has a program join such a bus.
func proof(program string, args []string) []string {
	i := slices.Index(args, "--nats")
	if i < 0 || slices.Contains(args, "--nats-nkey") {
		return nil
	}
	f, ok := fleets.Load(args[i+1])
	if !ok {
		return nil
	}
	user := program
	if program == "busbar" {
		user = args[0]
	}
	dir := f.(*bustest.Fleet).Dir
	switch _, err := dir.Read(user); {
	case user == "services":
		user = permission.Operator
	case user == "stdio":
		user = permission.Edge
	case err != nil:
		user = permission.Developer
	}
	return []string{"--nats-nkey", dir.Path(user)}
}

// serve puts a service on the bus from this process until the returned stop is
// called, at the latest at the test's end.
func serve(t testing.TB, nats string, s *service.Service) (stop func()) {
	t.Helper()
	conn := join(t, nats, s.Name())
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

// testEdge is one of tests that only ask it things.
var testEdge = bustest.Shared[*edgeWithTests]{Start: startTestEdge}

func startTestEdge(t testing.TB) *edgeWithTests {
	t.Helper()
	nats := bustest.Server(t)
	e := &edgeWithTests{ledger: &testservice.Ledger{}}
	serve(t, nats, testservice.New(e.ledger))
	e.process, e.ready = startEdge(t, nats)
	return e
}

// awaitInstances waits until so many instances of a service are on the bus.
func awaitInstances(t testing.TB, nats, name string, n int) {
	t.Helper()
	conn := join(t, nats, permission.Edge)
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
	deadline := time.After(bustest.Patience)
	for {
		for _, s := range r.Services() {
			if s.Name == name && len(s.Instances) == n {
				return
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("not %d instances of %s after %v: %v", n, name, bustest.Patience, r.Services())
		}
	}
}
