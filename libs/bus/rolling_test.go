package bus_test

import (
	"context"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// running is an instance that takes calls and is announced.
type running struct {
	server *bus.Server
	there  *registry.Announcer
}

func (r running) stop(t *testing.T) {
	r.there.Withdraw(t.Context())
	if err := r.server.Drain(within(t, bustest.Patience)); err != nil {
		t.Error(err)
	}
}

// run starts instances of "svc" in one version.
func run(t *testing.T, conn *bus.Conn, version string, instances int) (all []running) {
	t.Helper()
	for range instances {
		s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Drain(context.Background()) })
		all = append(all, running{s, announce(t, conn, "svc", s.Instance(), version, catalogue("svc", "of "+version))})
	}
	return all
}

// A service with more instances than it has places is deployed anew, a part at a time: no call
// fails, the new release is seen, and instances that found no place have one when others leave.
func TestRollingDeployBeyondThePlaces(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	edge, conn := bustest.Connect(t, url), bustest.Join(t, url)
	v := watch(t, edge)
	caller := callerOn(t, edge)
	const all, part = registry.MaxInstances + registry.MaxInstances/5, registry.MaxInstances / 10
	seen := func() (versions map[string]int, instances int) {
		versions = map[string]int{}
		for _, s := range v.Services() {
			instances = len(s.Instances)
			for _, r := range s.Releases {
				versions[r.Version] = len(r.Instances)
			}
		}
		return versions, instances
	}
	old := run(t, conn, "1.0.0", all)
	bustest.Eventually(t, "every place is taken", func() bool { _, n := seen(); return n == registry.MaxInstances })
	stop := reads(t, caller)
	for len(old) > 0 {
		run(t, conn, "2.0.0", part)
		var leaving sync.WaitGroup
		for _, one := range old[:part] {
			leaving.Go(func() { one.stop(t) })
		}
		leaving.Wait()
		old = old[part:]
	}
	bustest.Eventually(t, "every place is taken by the new release", func() bool {
		versions, n := seen()
		return n == registry.MaxInstances && versions["2.0.0"] == registry.MaxInstances
	})
	if took := stop(); len(took) == 0 {
		t.Error("no call was made meanwhile")
	}
	if _, err := caller.CallWith(within(t, bustest.Patience), "svc", toolCall(`{}`), bus.Options{Harmless: true}); err != nil {
		t.Error(err)
	}
}
