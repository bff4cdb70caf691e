package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
)

// world is the state of a soak, and the facts collected in it.
type world struct {
	f    *fleet
	seed uint64

	mu      sync.Mutex
	next    int // numbers the keys
	tallies map[string]*tally
	wanted  []wanted
	refused []refusal
	outages []outage
	// still are the times in which the machine stood still by itself, and what follows.
	still  []outage
	stands int
	found  []fault
}

// tally counts what became of the calls of one kind.
type tally struct{ ok, refused, unknown, retried int }

// certainty is a client's knowledge of an effect.
type certainty int

const (
	never certainty = iota // every answer said so
	maybe
	once
)

func (c certainty) String() string { return [...]string{"never", "at most once", "once"}[c] }

// wanted is an effect and how often it must have happened.
type wanted struct {
	key, kind string
	certainty
	ended  time.Time
	answer string
}

// refusal is a call that did not succeed. Outside an outage every call succeeds.
type refusal struct {
	kind         string
	began, ended time.Time
	answer       caller.Answer
}

// outage is a time in which calls may be refused, as something is taken away.
type outage struct {
	what         string
	began, ended time.Time // the zero time: it lasts
	// gone is when what was killed had ended; zero until then.
	gone time.Time
}

// fault is something that must not happen, once or many times.
type fault struct {
	what     string
	examples []string
	times    int
}

func newWorld(f *fleet, seed uint64) *world {
	return &world{f: f, seed: seed, tallies: map[string]*tally{}}
}

func (w *world) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, stream)) }

// key is a new one.
func (w *world) key(kind string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	return fmt.Sprintf("%s-%d", kind, w.next)
}

// fault notes what must not happen; the first few times are kept as examples.
func (w *world) fault(what, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.found, func(f fault) bool { return f.what == what })
	if i < 0 {
		i = len(w.found)
		w.found = append(w.found, fault{what: what})
	}
	if w.found[i].times++; w.found[i].times <= 4 {
		w.found[i].examples = append(w.found[i].examples, fmt.Sprintf(format, args...))
	}
}

func (w *world) faults() []fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.found)
}

// ended notes what came of a call, with all its repetitions. A key says that it
// has an effect in the ledger.
func (w *world) ended(kind, key string, began time.Time, tries ...caller.Answer) {
	last := tries[len(tries)-1]
	c := never
	for _, a := range tries {
		switch {
		case a.OK:
			c = once
		case a.Executed != "no" && c == never:
			c = maybe
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tallies[kind]
	if t == nil {
		t = &tally{}
		w.tallies[kind] = t
	}
	switch {
	case last.OK:
		t.ok++
	case c == never:
		t.refused++
	default:
		t.unknown++
	}
	t.retried += len(tries) - 1
	if key != "" {
		w.wanted = append(w.wanted, wanted{key, kind, c, time.Now(), last.String()})
	}
	if !last.OK {
		w.refused = append(w.refused, refusal{kind, began, time.Now(), last})
	}
}

// once makes a call that is not repeated.
func (w *world) once(ctx context.Context, kind string, c client, what caller.Call, key string) caller.Answer {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	a := c.call(ctx, what)
	w.ended(kind, key, began, a)
	return a
}

// began says that something is taken away, and returns a function that says that it is back. Calls
// under way then may still fail for the time that peers need to notice.
func (w *world) began(what string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.outages)
	w.outages = append(w.outages, outage{what: what, began: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outages[i].ended = time.Now()
	}
}

// during is the outage that overlaps a time, or empty.
func (w *world) during(began, ended time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return overlaps(w.outages, began, ended)
}

func overlaps(outages []outage, began, ended time.Time) string {
	for _, o := range outages {
		if o.began.Before(ended) && (o.ended.IsZero() || o.ended.After(began)) {
			return o.what
		}
	}
	return ""
}
