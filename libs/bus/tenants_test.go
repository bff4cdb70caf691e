package bus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A tenant with many principals that makes ten times as many calls as a service can handle takes
// little from the others. Time passes in rounds; in each of them, as many calls end as there are
// slots, so the test does not depend on the machine's speed.
func TestOverloadIsFairToTenants(t *testing.T) {
	t.Parallel()
	const size, rounds = 8, 12
	url := bustest.Server(t)
	end := make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		<-end
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	heavy, light := newCaller(t, url), newCaller(t, url)
	var work sync.WaitGroup
	var waiting, ended, theirs, slowest atomic.Int64
	call := func(caller *edges.Caller, tenant string, principal int, done func(begun int64, err error)) {
		req := of(fmt.Sprint(tenant, principal), 0)
		req.Identity = &busv1.Identity{Tenant: tenant, Principal: req.Name}
		waiting.Add(1)
		begun := ended.Load()
		work.Go(func() {
			_, err := caller.Call(t.Context(), "svc", req, nil)
			done(begun, err)
			waiting.Add(-1)
		})
	}
	settled := func() bool { return waiting.Load() == s.Stats().InFlight }
	for round := range rounds {
		for i := range 10 * size {
			call(heavy, "heavy", i%50, func(_ int64, err error) {
				if err == nil {
					theirs.Add(1)
				}
			})
		}
		bustest.Eventually(t, "the heavy tenant's calls run, wait or are refused", settled)
		call(light, "light", round%2, func(begun int64, err error) {
			if err != nil {
				t.Errorf("a call of the other tenant: %v", err)
			}
			waited := ended.Load() - begun
			for before := slowest.Load(); waited > before && !slowest.CompareAndSwap(before, waited); before = slowest.Load() {
			}
		})
		bustest.Eventually(t, "the other tenant's call runs or waits", settled)
		for range size {
			end <- struct{}{}
			ended.Add(1)
		}
		bustest.Eventually(t, "the calls that ended are answered", settled)
	}
	n, took := theirs.Load(), slowest.Load()
	close(end)
	work.Wait()
	t.Logf("of %d calls that ended %d were the heavy tenant's; the other's waited for %d others at most", rounds*size, n, took)
	if took > 2*size {
		t.Errorf("a call of the other tenant waited until %d others had ended", took)
	}
	if n < rounds*size/2 {
		t.Errorf("the heavy tenant got %d of %d slots", n, rounds*size)
	}
}

// Tenants that together make three times as many calls as a service can handle share its capacity:
// no slot is idle, and each tenant has about the same.
func TestAllTenantsBeyondCapacity(t *testing.T) {
	t.Parallel()
	const size, rounds, tenants = 8, 12, 4
	url := bustest.Server(t)
	end := make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		<-end
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	var work sync.WaitGroup
	var waiting, refused atomic.Int64
	var done [tenants]atomic.Int64
	callers := [tenants]*edges.Caller{}
	for i := range callers {
		callers[i] = newCaller(t, url)
	}
	settled := func() bool { return waiting.Load() == s.Stats().InFlight }
	sum := func() (all int64) {
		for i := range done {
			all += done[i].Load()
		}
		return all
	}
	for round := range rounds {
		for i := range 3 * size {
			// The same tenant does not come first each time.
			tenant := (i + round) % tenants
			req := of(fmt.Sprint(tenant, "-", i), 0)
			req.Identity = &busv1.Identity{Tenant: fmt.Sprint(tenant), Principal: req.Name}
			waiting.Add(1)
			work.Go(func() {
				if _, err := callers[tenant].Call(t.Context(), "svc", req, nil); err == nil {
					done[tenant].Add(1)
				} else {
					refused.Add(1)
				}
				waiting.Add(-1)
			})
		}
		bustest.Eventually(t, "all calls run, wait or are refused", settled)
		for range size {
			end <- struct{}{}
		}
		bustest.Eventually(t, "the calls that ended are answered", func() bool { return sum() == int64((round+1)*size) && settled() })
	}
	least, most := done[0].Load(), done[0].Load()
	for i := range done {
		least, most = min(least, done[i].Load()), max(most, done[i].Load())
	}
	t.Logf("of %d calls at three times the capacity %d were carried out and %d refused; the tenant with least had %.0f%% of the one with most (%d of %d)",
		rounds*3*size, sum(), refused.Load(), 100*float64(least)/float64(most), least, most)
	if 2*least < most {
		t.Errorf("one tenant had %d calls, another %d", least, most)
	}
	if refused.Load() == 0 {
		t.Error("nothing was refused: that was no overload")
	}
	close(end)
	work.Wait()
}

// If the queue is full, the newest call of the tenant with the most calls gives way.
func TestTheHeaviestGivesWay(t *testing.T) {
	t.Parallel()
	const size = 2
	url := bustest.Server(t)
	release := make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	refused := make(chan string, 100)
	var work sync.WaitGroup
	call := func(tenant string) {
		req := of(tenant, 0)
		req.Identity = &busv1.Identity{Tenant: tenant, Principal: "p"}
		work.Go(func() {
			if _, err := caller.Call(t.Context(), "svc", req, nil); err != nil {
				refused <- tenant
			}
		})
	}
	// Two slots and a queue of eight: each of two tenants may have half.
	for _, tenant := range []string{"one", "two"} {
		for range 8 {
			call(tenant)
		}
	}
	bustest.Eventually(t, "slots and places are full", func() bool { return s.Stats().InFlight == size+4*size && len(refused) == 6 })
	for range 6 {
		<-refused
	}
	call("three")
	if who := await(t, "one gives way", refused); who == "three" {
		t.Error("a tenant that has nothing is refused")
	}
	close(release)
	work.Wait()
}
