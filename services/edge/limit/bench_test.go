package limit

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// fixed are the same limits for every call.
type fixed Applied

func (f fixed) Limits(gateway.View) Applied { return Applied(f) }

// alone is one edge with its own time, which has all tokens.
func alone(r Rules) *Limiter {
	w := &world{}
	e := &edge{world: w, id: "edge"}
	begin := time.Now()
	l := newLimiter(Config{
		Rules: r, Next: gateway.NewInFlight(gateway.DefaultInFlight), Edge: "edge", Store: &kept{}, Peers: e,
		Logger: slog.New(slog.DiscardHandler), now: func() time.Duration { return time.Since(begin) },
	})
	_ = l.members.tick(context.Background())
	l.members.until.Store(1 << 60)
	return l
}

// kept is a Store of one value.
type kept struct {
	value    []byte
	revision uint64
}

func (k *kept) Look(context.Context, string) ([]byte, uint64, error) { return k.value, k.revision, nil }

func (k *kept) Replace(_ context.Context, _ string, value []byte, _ uint64) (uint64, error) {
	k.value, k.revision = value, k.revision+1
	return k.revision, nil
}

func BenchmarkAcquire(b *testing.B) {
	rate, n := Rate{maxCount, time.Second}, 1_000_000
	for _, one := range []struct {
		name string
		a    Applied
	}{
		{"none", Applied{}},
		{"rate of the principal", Applied{Principal: Limits{Rate: rate}}},
		{"three rates", Applied{Principal: Limits{Rate: rate}, Tenant: Limits{Rate: rate}, Tool: Limits{Rate: rate}, Rule: "search*"}},
		{"three of each", Applied{Principal: Limits{rate, n}, Tenant: Limits{rate, n}, Tool: Limits{rate, n}, Rule: "search*"}},
	} {
		l := alone(fixed(one.a))
		v := gateway.View{Call: &gateway.Call{}, Principal: gateway.Principal{Name: "anna", Tenant: "acme"}, Account: "4:acmeanna"}
		b.Run(one.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				release, err := l.Acquire(context.Background(), v)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
		b.Run(one.name+", all at once", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					release, err := l.Acquire(context.Background(), v)
					if err != nil {
						b.Error(err)
						return
					}
					release()
				}
			})
		})
	}
}

// Who has no limit costs no memory for each call.
func TestNoLimitNoAllocation(t *testing.T) {
	l := alone(fixed{})
	v := gateway.View{Call: &gateway.Call{}, Principal: gateway.Principal{Name: "anna", Tenant: "acme"}}
	if n := testing.AllocsPerRun(1000, func() {
		release, err := l.Acquire(context.Background(), v)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}); n > 0 {
		t.Errorf("%.1f allocations", n)
	}
}

// More principals than there is room for do not stay in memory, and those that are idle leave.
func TestKeysAreBounded(t *testing.T) {
	const part = 16 // of the keys that an edge has room for
	l := alone(nil)
	l.rates.capacity /= part
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 4 * maxKeys / part {
		l.use(fmt.Sprint("p", i), Rate{1, time.Hour})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	size := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d keys, %d MiB", l.rates.len(), size>>20)
	if n := l.rates.len(); n > maxKeys/part || size > 128<<20/part {
		t.Errorf("%d keys, %d bytes", n, size)
	}
	l = alone(nil)
	base := time.Duration(0)
	l.now = func() time.Duration { return base }
	for i := range 50_000 {
		base += 10 * time.Millisecond
		l.use(fmt.Sprint("p", i), Rate{1, time.Second})
	}
	if n := l.rates.len(); n > 10_000 {
		t.Errorf("%d keys, of which a hundred were used within the time that their limits take", n)
	}
	runtime.KeepAlive(l)
}

func (l *Limiter) use(name string, r Rate) {
	_, _, _ = take(context.Background(), l, l.rates, key{OfPrincipal, "", name, Limits{Rate: r}})
}
