package limit

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Whatever becomes of the edges, and however much is asked of them, no minute has
// more calls than its limit and a fiftieth.
func TestHeldAcrossEdges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"200/s", "10/s", "3/s", "60/min", "10/min", "1/min", "30/h"} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", text, seed), func(t *testing.T) {
				t.Parallel()
				rate, err := ParseRate(text)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, seed)
				w.slow = []time.Duration{0, 20 * time.Millisecond, 3 * askTime}[seed%3]
				// A quick rate takes as many turns in less time; a window has to fit.
				length := max(2*time.Minute, min(10*time.Minute, 40_000*rate.Per/time.Duration(rate.Count)/10))
				at := w.storm(key{OfPrincipal, "acme", "anna", Limits{Rate: rate}}, length)
				window := max(time.Minute, rate.Per)
				limit := float64(rate.Count) * float64(window) / float64(rate.Per)
				got := most(at, window)
				t.Logf("%d calls in all, at most %d in %v: %.4f of the limit; %d requests between edges", len(at), got, window, float64(got)/limit, w.asked)
				if float64(got) > 1.02*limit {
					t.Errorf("%d calls in %v", got, window)
				}
				if rate.burst() > 1 && float64(len(at)) < 0.3*limit/float64(window)*float64(length) {
					t.Errorf("%d calls at all", len(at))
				}
			})
		}
	}
}

// storm has four edges, more or less, that come and go while ten times the rate
// is asked of them, of a quick one two and a half times; it returns when calls
// were let. Never have they more than all of it between them.
func (w *world) storm(k key, length time.Duration) (at []time.Duration) {
	for range 4 {
		w.join(nil)
	}
	every := max(k.limit.Rate.Per/time.Duration(10*k.limit.Rate.Count), 2*time.Millisecond)
	event, look := time.Duration(0), time.Duration(0)
	for end := w.time + length; w.time < end; {
		w.time += time.Duration(w.rng.Int64N(2 * int64(min(every, 100*time.Millisecond))))
		w.step()
		if w.time >= event {
			event = w.time + time.Duration(w.rng.Int64N(int64(12*time.Second)))
			w.happen(false)
		}
		if len(w.edges) == 0 {
			continue
		}
		if w.time >= look {
			look = w.time + 50*time.Millisecond
			if all := w.shares(k); all > 1+1e-9 {
				w.t.Fatalf("after %v the edges have %.3f of the limit", w.time, all)
			}
		}
		// Sticky for a while, then another.
		e := w.edges[int(w.time/(7*time.Second))%len(w.edges)]
		if w.rng.IntN(2) == 0 {
			e = w.edges[w.rng.IntN(len(w.edges))]
		}
		if e.call(k) {
			at = append(at, w.time)
		}
	}
	return at
}

// shares is what all edges have of a limit that may use it now.
func (w *world) shares(k key) (all float64) {
	for _, e := range w.edges {
		if e.members.leased(w.time) {
			s := e.members.holdings.Load()
			all += s.periods[len(s.periods)-1].share(e.id, k.hash(), k.limit.Rate.burst())
		}
	}
	return all
}

// happen is what happens to edges; if it is kind, they only begin and end.
func (w *world) happen(kind bool) {
	if len(w.edges) < 2 || len(w.edges) < 6 && w.rng.IntN(3) == 0 {
		w.join(nil)
		return
	}
	e := w.edges[w.rng.IntN(len(w.edges))]
	what := w.rng.IntN(6)
	if kind {
		what %= 2
	}
	switch what {
	case 0:
		w.drop(e) // killed
	case 1:
		_ = e.members.leave(context.Background())
		w.drop(e)
	case 2:
		e.cut = true
	case 3:
		e.stopped = true
	default:
		for _, one := range w.edges {
			one.cut, one.stopped = false, false
		}
	}
}

// Whoever comes to one edge only has the whole rate there all the same.
func TestOneEdgeServesTheWholeRate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"200/s", "10/s", "1/s", "10/min"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			rate, err := ParseRate(text)
			if err != nil {
				t.Fatal(err)
			}
			for at := range 4 { // one of them holds the tokens of a slow rate
				w := newWorld(t, 7)
				for range 4 {
					w.join(nil)
				}
				w.pass(10 * time.Second)
				k, n, length := key{OfPrincipal, "acme", "anna", Limits{Rate: rate}}, 0, 5*time.Minute
				// As often as there is a token, and more.
				every := min(20*time.Millisecond, rate.Per/time.Duration(rate.Count))
				if rate.Count*int(time.Minute/rate.Per) >= 600 {
					length = time.Minute
				}
				for i := time.Duration(0); i < length; i += every {
					w.pass(every)
					if w.edges[at].call(k) {
						n++
					}
				}
				want := float64(rate.Count) * float64(length) / float64(rate.Per)
				t.Logf("%d calls of %.0f, %d requests between edges", n, want, w.asked)
				if float64(n) < 0.93*want {
					t.Errorf("%d calls of %.0f", n, want)
				}
			}
		})
	}
}
