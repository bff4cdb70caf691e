package limit

import (
	"context"
	"testing"
	"time"

	"github.com/throttled/throttled/v2"
)

// One edge by itself lets what the cell rate algorithm of another hand lets.
func TestOneEdgeAgainstAnotherGCRA(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"200/s", "10/s", "1/s", "10/min", "1000/h", "5/h"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			rate, err := ParseRate(text)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, 3)
			e := w.join(nil)
			w.pass(10 * time.Second)
			for !e.members.leased(w.time) {
				w.pass(time.Second)
			}
			store := &oneValue{world: w}
			theirs, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
				MaxRate:  throttled.PerDuration(rate.Count, time.Duration(float64(rate.Per)/slack)),
				MaxBurst: int(rate.burst()) - 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			k := key{OfPrincipal, "acme", "anna", Limits{Rate: rate}}
			every := float64(rate.Per) / float64(rate.Count)
			ours, other, differ := 0, 0, 0
			const calls = 6_000
			load := 1.0
			for range calls {
				if w.rng.IntN(100) == 0 {
					load = []float64{0.1, 0.5, 0.9, 1, 1.1, 3, 10}[w.rng.IntN(7)]
				}
				w.time += time.Duration(w.rng.ExpFloat64() * every / load)
				e.until(w)
				limited, _, err := theirs.RateLimitCtx(context.Background(), "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				mine := e.call(k)
				if mine {
					ours++
				}
				if !limited {
					other++
				}
				if mine == limited {
					differ++
				}
				// Both count in their own units: they may differ by when a token is there, by
				// a nanosecond each.
				if ours-other > 1 || other-ours > 1 {
					t.Fatalf("%d calls are let, of another limiter %d", ours, other)
				}
			}
			t.Logf("%d of %d calls let, %d decided otherwise", ours, calls, differ)
			if differ > calls/1000 {
				t.Errorf("%d of %d decisions differ", differ, calls)
			}
		})
	}
}

// until keeps the edge's lease, however much time has passed.
func (e *edge) until(w *world) {
	for e.tickAt <= w.time || !e.members.leased(w.time) {
		e.tickAt = 0
		e.step()
	}
}

// oneValue is a store of the other limiter with the time of a world.
type oneValue struct {
	world *world
	value int64
	set   bool
}

func (s *oneValue) GetWithTime(context.Context, string) (int64, time.Time, error) {
	now := time.Unix(1e9, 0).Add(s.world.time)
	if !s.set {
		return -1, now, nil
	}
	return s.value, now, nil
}

func (s *oneValue) SetIfNotExistsWithTTL(_ context.Context, _ string, value int64, _ time.Duration) (bool, error) {
	if s.set {
		return false, nil
	}
	s.value, s.set = value, true
	return true, nil
}

func (s *oneValue) CompareAndSwapWithTTL(_ context.Context, _ string, old, value int64, _ time.Duration) (bool, error) {
	if !s.set || s.value != old {
		return false, nil
	}
	s.value = value
	return true, nil
}
