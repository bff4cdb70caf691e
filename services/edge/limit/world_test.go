package limit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// world is some edges that share limits, in a time of their own.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	time time.Duration
	// value and revision are the record, old what it was before.
	value, old            []byte
	revision, oldRevision uint64
	edges                 []*edge
	// due is a time before which no edge has anything to do.
	due   time.Duration
	born  int
	asked int
	// slow is how long a request may take on its way, at most.
	slow time.Duration
}

// edge is one of them.
type edge struct {
	*Limiter
	world   *world
	id      string
	cut     bool // from the bus
	stopped bool // the process
	tickAt  time.Duration
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
}

// join starts an edge.
func (w *world) join(rules Rules) *edge {
	w.born++
	e := &edge{world: w, id: fmt.Sprintf("edge%d", w.born), tickAt: w.time}
	e.Limiter = newLimiter(Config{
		Rules: rules, Next: gateway.NewInFlight(1 << 30), Edge: e.id, Store: e, Peers: e,
		Logger: slog.New(slog.DiscardHandler), now: func() time.Duration { return w.time },
	})
	e.members.wall = func() time.Time { return time.Unix(1e9, 0).Add(w.time) }
	w.edges = append(w.edges, e)
	w.due = 0
	e.step()
	return e
}

// drop ends an edge, without a word.
func (w *world) drop(e *edge) {
	for i, one := range w.edges {
		if one == e {
			w.edges = append(w.edges[:i], w.edges[i+1:]...)
			return
		}
	}
}

// step lets an edge do what is due.
func (e *edge) step() {
	if e.stopped || e.world.time < e.tickAt {
		return
	}
	e.tickAt = e.world.time + beatEvery + time.Duration(e.world.rng.Int64N(int64(beatEvery/5)))
	_ = e.members.tick(context.Background())
	e.renew(context.Background())
}

// step lets all edges do what is due.
func (w *world) step() {
	if w.time < w.due {
		return
	}
	w.due = math.MaxInt64
	for _, e := range w.edges {
		e.step()
		w.due = min(w.due, e.tickAt)
	}
}

// pass lets time go by for all.
func (w *world) pass(d time.Duration) {
	for end := w.time + d; w.time < end; {
		w.time += min(50*time.Millisecond, end-w.time)
		w.step()
	}
}

var errCut = errors.New("the bus is away")

func (e *edge) Look(context.Context, string) ([]byte, uint64, error) {
	w := e.world
	switch {
	case e.cut:
		return nil, 0, errCut
	case w.rng.IntN(20) == 0:
		return w.old, w.oldRevision, nil // from a server that lags
	}
	return w.value, w.revision, nil
}

func (e *edge) Replace(_ context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	w := e.world
	switch {
	case e.cut:
		return 0, errCut
	case revision != w.revision:
		return 0, nil
	}
	w.old, w.oldRevision = w.value, w.revision
	w.value, w.revision = value, w.revision+1
	if w.rng.IntN(50) == 0 {
		return 0, errCut // written, but nobody hears of it
	}
	return w.revision, nil
}

func (e *edge) Borrow(_ context.Context, id string, r *edgev1.TokenRequest) (*edgev1.Tokens, error) {
	w := e.world
	w.asked++
	for _, other := range w.edges {
		if other.id != id || other.cut || e.cut || other.stopped {
			continue
		}
		got := other.Lend(r)
		if w.slow > 0 && w.rng.IntN(4) == 0 {
			w.time += time.Duration(w.rng.Int64N(int64(w.slow)))
		}
		if got == nil || w.rng.IntN(50) == 0 {
			break // lost on its way
		}
		return got, nil
	}
	return nil, errCut
}

// call takes a token at an edge.
func (e *edge) call(k key) bool {
	if e.stopped || !e.members.leased(e.now()) {
		return false
	}
	_, ok, _ := take(context.Background(), e.Limiter, e.rates, k)
	return ok
}

// most is the most that happened in any time of that length, its end not
// included.
func most(at []time.Duration, window time.Duration) (n int) {
	first := 0
	for i, t := range at {
		for t-at[first] >= window {
			first++
		}
		n = max(n, i-first+1)
	}
	return n
}
