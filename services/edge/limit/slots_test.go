package limit

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// call is one in flight.
type call struct {
	at   *edge
	of   *slots
	ends time.Duration
}

// However edges end and come back, no more calls are in flight than the limit says.
// Only when shares have just moved, calls that began before may be too many.
func TestConcurrentAcrossEdges(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3, 10, 40} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%d/%d", limit, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, seed)
				for range 4 {
					w.join(nil)
				}
				w.pass(5 * time.Second)
				k := key{OfTool, "", "render*", Limits{Concurrent: limit}}
				var flying []call
				moved, top, let := w.time, 0, 0
				event := w.time + 30*time.Second
				last := uint64(0)
				for end := w.time + 5*time.Minute; w.time < end; {
					w.pass(time.Duration(w.rng.Int64N(int64(time.Second / time.Duration(2*limit)))))
					for i := 0; i < len(flying); i++ {
						if c := flying[i]; c.ends <= w.time {
							c.of.release()
							flying = append(flying[:i], flying[i+1:]...)
							i--
						}
					}
					if now := w.moves(); now != last {
						last, moved = now, w.time
					}
					if w.time > event {
						event = w.time + time.Duration(w.rng.Int64N(int64(40*time.Second)))
						w.happen(seed%2 == 0)
						flying = w.alive(flying)
					}
					e := w.edges[int(w.time/(9*time.Second))%len(w.edges)]
					if w.rng.IntN(3) == 0 {
						e = w.edges[w.rng.IntN(len(w.edges))]
					}
					if e.stopped || !e.members.leased(w.time) {
						continue
					}
					of, ok, _ := take(context.Background(), e.Limiter, e.slots, k)
					if !ok {
						continue
					}
					let++
					flying = append(flying, call{e, of, w.time + time.Duration(w.rng.Int64N(int64(time.Second)))})
					most := limit
					if w.time-moved < 10*time.Second {
						most = 2*limit + 1
					}
					if len(flying) > most {
						t.Fatalf("%d calls in flight, %v after shares have moved", len(flying), w.time-moved)
					}
					top = max(top, len(flying))
				}
				t.Logf("%d calls, at most %d of %d in flight, %d requests between edges", let, top, limit, w.asked)
				if top < limit {
					t.Errorf("never more than %d in flight", top)
				}
				for _, c := range flying {
					c.of.release()
				}
			})
		}
	}
}

// moves counts how often the shares of some edge have changed.
func (w *world) moves() (n uint64) {
	for _, e := range w.edges {
		n += e.members.holdings.Load().latest
	}
	return n
}

// alive are the calls whose edges live: a killed one has none.
func (w *world) alive(all []call) (left []call) {
	for _, c := range all {
		for _, e := range w.edges {
			if c.at == e {
				left = append(left, c)
			}
		}
	}
	return left
}

// One edge may have all places, and gives them back when it needs them no more.
func TestPlacesGoWhereTheyAreNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for range 4 {
		w.join(nil)
	}
	w.pass(5 * time.Second)
	k := key{OfPrincipal, "acme", "anna", Limits{Concurrent: 20}}
	var flying []*slots
	fill := func(e *edge) {
		for range 30 {
			for range 10 {
				if of, ok, _ := take(context.Background(), e.Limiter, e.slots, k); ok {
					flying = append(flying, of)
				}
			}
			w.pass(time.Second)
		}
	}
	fill(w.edges[0])
	if len(flying) < 19 {
		t.Errorf("only %d of 20 calls at one edge", len(flying))
	}
	for _, of := range flying {
		of.release()
	}
	flying = nil
	w.pass(20 * time.Second)
	fill(w.edges[1])
	if len(flying) < 19 {
		t.Errorf("only %d of 20 calls at the next", len(flying))
	}
	for _, of := range flying {
		of.release()
	}
	w.pass(20 * time.Second)
	for _, e := range w.edges {
		if len(e.debts) > 0 {
			t.Errorf("%s has places of others: %v", e.id, e.debts)
		}
	}
}
