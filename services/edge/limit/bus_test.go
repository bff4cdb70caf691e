package limit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rules are the same for every call.
type rules limit.Applied

func (r rules) Limits(gateway.View) limit.Applied { return limit.Applied(r) }

// atEdge is a Limiter on a bus.
type atEdge struct {
	*limit.Limiter
	stop func() // without a word
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

// Over a real bus too, a rate holds while edges come and go and ten times as much
// is asked of them.
func TestHeldOverABus(t *testing.T) {
	t.Parallel()
	const rate, length = 100, 10 * time.Second
	url := bustest.Server(t)
	limited := rules{Principal: limit.Limits{Rate: limit.Rate{Count: rate, Per: time.Second}}}
	var mu sync.Mutex
	var let []time.Duration
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var work sync.WaitGroup
	ask := func(e *atEdge, until time.Duration) {
		for range 5 {
			work.Go(func() {
				every := time.NewTicker(5 * 4 * time.Second / (10 * rate))
				defer every.Stop()
				for {
					select {
					case <-every.C:
					case <-ctx.Done():
						return
					}
					if time.Since(begin) > until {
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
	}
	one, two, three, four := start(t, url, limited), start(t, url, limited), start(t, url, limited), start(t, url, limited)
	for _, e := range []*atEdge{one, two} {
		ask(e, length)
	}
	ask(three, length/3)
	ask(four, length/2)
	work.Go(func() {
		for _, step := range []struct {
			at time.Duration
			do func()
		}{
			{length / 3, three.stop}, // dies
			{length / 2, four.Close}, // leaves
			{length * 6 / 10, func() { ask(start(t, url, limited), length) }},
		} {
			select {
			case <-time.After(time.Until(begin.Add(step.at))):
				step.do()
			case <-ctx.Done():
			}
		}
	})
	work.Wait()
	mu.Lock()
	defer mu.Unlock()
	// Of a minute the burst is a sixtieth, here it is more; and a busy machine notes
	// some calls late.
	for _, window := range []time.Duration{time.Second, 3 * time.Second, length} {
		n, first := 0, 0
		for i, at := range let {
			for at-let[first] >= window {
				first++
			}
			n = max(n, i-first+1)
		}
		ratio := float64(n) / (rate * (window + 1500*time.Millisecond).Seconds())
		t.Logf("%d calls in %v, which is %.3f of %d and the burst", n, window, ratio, rate)
		if ratio > 1 {
			t.Errorf("%d calls in %v", n, window)
		}
	}
	// Of a busy machine the edges hear each other late, and let less; never more.
	if served := float64(len(let)) / (rate * length.Seconds()); served < 0.1 {
		t.Errorf("only %.2f of the rate was let", served)
	}
}
