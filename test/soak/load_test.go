package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/test/caller"
)

const (
	// callTime is how long a client waits for one answer.
	callTime = 45 * time.Second
	// retryTime is how long a call with a key is repeated.
	retryTime = 90 * time.Second
)

// worker is one client after another.
type worker struct {
	*world
	*rand.Rand
	turn int
}

// scenarios are the actions of clients, with their frequencies.
var scenarios = []struct {
	weight int
	play   func(*worker, context.Context)
}{
	{60, (*worker).converse},
	{6, (*worker).batch},
	{6, (*worker).approve},
	{4, (*worker).runTask},
	{6, (*worker).resume},
	{4, (*worker).subscribe},
	{8, (*worker).store},
}

// load has clients come and go until the time is over.
func (w *world) load(ctx context.Context, workers int, d time.Duration) {
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			k := &worker{world: w, Rand: w.random(uint64(i + 1)), turn: i}
			for time.Now().Before(end) && ctx.Err() == nil {
				k.scenario()(k, ctx)
				k.think(ctx)
			}
		})
	}
	all.Wait()
}

func (k *worker) scenario() func(*worker, context.Context) {
	sum := 0
	for _, s := range scenarios {
		sum += s.weight
	}
	n := k.IntN(sum)
	for _, s := range scenarios {
		if n -= s.weight; n < 0 {
			return s.play
		}
	}
	panic("unreachable")
}

func (k *worker) think(ctx context.Context) { _ = pause(ctx, 1+k.IntN(60)) }

// edge is the next one of both.
func (k *worker) edge() *edge {
	k.turn++
	return k.f.edges[k.turn%len(k.f.edges)]
}

// open connects through a door, at the other edge if one does not answer.
func (k *worker) open(ctx context.Context, d door) (client, error) {
	var err error
	for range k.f.edges {
		var c client
		ctx, cancel := context.WithTimeout(ctx, callTime)
		c, err = d.open(ctx, k.f, k.edge())
		cancel()
		if err == nil {
			return c, nil
		}
	}
	return nil, err
}

// converse opens a connection or a session, makes some calls and closes it.
func (k *worker) converse(ctx context.Context) {
	d := doors[k.IntN(len(doors))]
	calls := 1 + k.IntN(20)
	if d.dear {
		calls = 40
	}
	began := time.Now()
	c, err := k.open(ctx, d)
	if err != nil {
		k.ended(d.name+" connect", "", began, caller.Unsent(err))
		return
	}
	defer func() { c.close() }()
	for range calls {
		var a caller.Answer
		switch n := k.IntN(100); {
		case n < 35:
			a = k.once(ctx, d.name+" read", c, k.read(), "")
		case n < 70 || d.keyless:
			key := k.key("plain")
			a = k.once(ctx, d.name+" write", c, k.write("append", key), key)
		default:
			key := k.key("keyed")
			what := k.write("append", key)
			what.Key = key
			c, a = k.keyed(ctx, d, c, what, key)
		}
		if !a.OK || ctx.Err() != nil {
			return
		}
		k.think(ctx)
	}
}

func (k *worker) read() caller.Call {
	if k.IntN(3) == 0 {
		return caller.Call{Tool: "analyzeText", Arguments: `{"text":"One bus. Many circuits."}`}
	}
	return caller.Call{Tool: "look", Arguments: `{"key":"x"}`}
}

func (k *worker) write(tool, key string) caller.Call {
	return caller.Call{Tool: tool, Arguments: fmt.Sprintf(`{"key":%q,"ms":%d}`, key, []int{0, 0, 0, 10, 80}[k.IntN(5)])}
}

// keyed makes a call with an idempotency key and repeats it, over a connection of
// its own to either edge, until it succeeds. It returns the connection that is
// open in the end, and notes the effect in the ledger under key, if it has one.
func (k *worker) keyed(ctx context.Context, d door, c client, what caller.Call, key string) (client, caller.Answer) {
	began := time.Now()
	var tries []caller.Answer
	for wait := 100; ; wait = min(2*wait, 2000) {
		try, cancel := context.WithTimeout(ctx, callTime)
		a := c.call(try, what)
		cancel()
		tries = append(tries, a)
		if a.OK || time.Since(began) > retryTime || pause(ctx, wait) != nil {
			k.ended(d.name+" keyed", key, began, tries...)
			return c, a
		}
		c.close()
		for c = nil; c == nil; {
			var err error
			if c, err = k.open(ctx, d); err == nil {
				break
			}
			tries = append(tries, caller.Unsent(err))
			if time.Since(began) > retryTime || pause(ctx, wait) != nil {
				k.ended(d.name+" keyed", key, began, tries...)
				return nobody{}, tries[len(tries)-1]
			}
		}
	}
}

// nobody is in the place of a connection that could not be made.
type nobody struct{}

func (nobody) call(context.Context, caller.Call) caller.Answer {
	return caller.Answer{Reason: "connection", Executed: "no"}
}
func (nobody) close() {}
