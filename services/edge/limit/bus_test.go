package limit_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// rules are the same limits for every call.
type rules limit.Applied

func (r rules) Limits(gateway.View) limit.Applied { return limit.Applied(r) }

// atEdge is a Limiter on a bus.
type atEdge struct {
	*limit.Limiter
	stop func() // without leaving
}

func start(t testing.TB, url string, r limit.Rules) *atEdge {
	t.Helper()
	conn := bustest.Connect(t, url)
	caller, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	l := limit.New(t.Context(), limit.Config{
		Rules: r, Next: gateway.NewInFlight(gateway.DefaultInFlight), Edge: caller.Edge(),
		Store: conn.Bucket(bus.LimitsBucket), Peers: caller, Logger: bustest.Logger(t),
	})
	leave, err := caller.OnBorrow(l.Lend)
	if err != nil {
		t.Fatal(err)
	}
	e := &atEdge{Limiter: l}
	var once sync.Once
	e.stop = func() { once.Do(func() { leave(); conn.Close(); l.Close() }) }
	t.Cleanup(func() { l.Close(); e.stop(); _ = caller.Close() })
	return e
}

var anna = gateway.View{Call: &gateway.Call{}, Principal: gateway.Principal{Name: "anna", Tenant: "acme"}}

// Over a real bus too, a rate holds while edges join and leave and ten times as many calls are
// made. Events are tied to the number of calls. So a busy machine, which admits fewer, only takes
// longer.
func TestHeldOverABus(t *testing.T) {
	t.Parallel()
	const rate, calls, askers = 200, 900, 5
	url := bustest.Server(t)
	limited := rules{Principal: limit.Limits{Rate: limit.Rate{Count: rate, Per: time.Second}}}
	var mu sync.Mutex
	var let []time.Duration
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	ask := func(e *atEdge) (end func()) {
		ctx, end := context.WithCancel(ctx)
		for range askers {
			work.Go(func() {
				every := time.NewTicker(askers * 4 * time.Second / (10 * rate))
				defer every.Stop()
				for {
					select {
					case <-every.C:
					case <-ctx.Done():
						return
					}
					release, err := e.Acquire(ctx, anna)
					if err != nil {
						if f := fault.From(err); f.Reason == fault.RateLimited && f.RetryAfter <= 0 {
							t.Errorf("%v does not say when to come back", err)
						}
						continue
					}
					release()
					mu.Lock()
					let = append(let, time.Since(begin))
					mu.Unlock()
				}
			})
		}
		return end
	}
	after := func(n int) {
		t.Helper()
		bustest.Eventually(t, fmt.Sprint(n, " calls are let"), func() bool { mu.Lock(); defer mu.Unlock(); return len(let) >= n })
	}
	one, two, three, four := start(t, url, limited), start(t, url, limited), start(t, url, limited), start(t, url, limited)
	ask(one)
	ask(two)
	endThree, endFour := ask(three), ask(four)
	after(calls / 3)
	endThree()
	three.stop() // dies
	after(calls / 2)
	endFour()
	four.Close() // leaves
	after(calls * 6 / 10)
	ask(start(t, url, limited))
	after(calls)
	cancel()
	work.Wait()
	// The burst is a sixtieth of the limit of a minute; here the allowance is larger. The client
	// may also note a call late.
	for _, window := range []time.Duration{time.Second, 3 * time.Second, time.Hour} {
		n, first, length := 0, 0, min(window, let[len(let)-1])
		for i, at := range let {
			for at-let[first] >= window {
				first++
			}
			n = max(n, i-first+1)
		}
		ratio := float64(n) / (rate*(length+time.Second).Seconds() + 5*askers)
		t.Logf("%d calls in %v, which is %.3f of %d and the burst", n, length, ratio, rate)
		if ratio > 1 {
			t.Errorf("%d calls in %v", n, length)
		}
	}
}
