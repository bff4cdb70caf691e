package bus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// A tenant that asks for ten times what a service can do, with many principals,
// takes little from the others.
func TestOverloadIsFairToTenants(t *testing.T) {
	t.Parallel()
	const size, took, length = 8, 40 * time.Millisecond, 3 * time.Second
	const capacity = size * int(time.Second/took)
	url := bustest.Server(t)
	serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		select {
		case <-time.After(took):
		case <-ctx.Done():
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	heavy, light := newCaller(t, url), newCaller(t, url)
	// load calls for a tenant so often in a second, and counts what comes of it.
	load := func(caller *edges.Caller, tenant string, payers, rate int) (goodput, asked int64) {
		var ok atomic.Int64
		var work sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		due := 0.0
		for begin := time.Now(); ctx.Err() == nil; {
			select {
			case <-every.C:
			case <-ctx.Done():
			}
			for due = time.Since(begin).Seconds() * float64(rate); float64(asked) < due; asked++ {
				req := of(fmt.Sprint(tenant, asked%int64(payers)), 0)
				req.Identity = &busv1.Identity{Tenant: tenant, Principal: req.Name}
				work.Go(func() {
					bounded, stop := context.WithTimeout(t.Context(), time.Second)
					defer stop()
					if _, err := caller.Call(bounded, "svc", req, nil); err == nil {
						ok.Add(1)
					}
				})
			}
		}
		work.Wait()
		return ok.Load(), asked
	}
	before, asked := load(light, "light", 2, capacity/10)
	var work sync.WaitGroup
	var theirs, wanted int64
	work.Go(func() { theirs, wanted = load(heavy, "heavy", 50, 10*capacity) })
	after, again := load(light, "light", 2, capacity/10)
	work.Wait()
	ratio := float64(after) / float64(again) / (float64(before) / float64(asked))
	t.Logf("alone %d of %d calls succeed; beside %d of a tenant with ten times the capacity (of which %d succeed) %d of %d: %.3f of the goodput",
		before, asked, wanted, theirs, after, again, ratio)
	if ratio < 0.8 {
		t.Errorf("%.3f of the goodput is left", ratio)
	}
	if theirs == 0 {
		t.Error("the other tenant gets nothing at all")
	}
}

// Where all places to wait are taken, the newest of the tenant that has the most
// gives way.
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
	// Two slots and eight places: each of two tenants may have half of them.
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
