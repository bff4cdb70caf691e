package gateway

import (
	"context"
	"iter"
	"sync"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

// Bounds of a batch.
const (
	// DefaultParallel is how many calls of a batch run concurrently if the door does not set a
	// number, and MaxParallel the largest number that it may set.
	DefaultParallel = 64
	//limit:call concurrent calls of one batch: 64 unless the client asks for more, at most | the others wait
	MaxParallel = 1024
)

// Calls are the calls of a batch, each with the reason why it cannot be made, or nil. A call that
// cannot be made has its place among the outcomes, too.
type Calls = iter.Seq2[*Call, error]

// Batch makes calls concurrently, at most parallel at a time; 0 means DefaultParallel. Each call
// passes the whole chain by itself, so that a failure affects no other call. done is given each
// outcome as soon as it is known, with the position of its call. One goroutine at a time calls
// done, and the result counts as held until done returns. Batch takes no more calls from the
// sequence than run, so a batch may be larger than memory.
//
// When ctx ends, running calls are cancelled, and calls that have not begun get an error that
// says nothing ran. Calls that have not begun when the account of ctx is full get such an error,
// too. Batch returns after done was called for every call.
func (g *Gateway) Batch(ctx context.Context, parallel int, calls Calls, done func(i int, a *Answer, err error)) {
	g.batch(ctx, parallel, calls, func(o ended) {
		done(o.place, o.answer, o.err)
		o.release()
	})
}

// BatchInOrder is Batch with the outcomes in the order of the calls. An early outcome waits for
// those before it.
func (g *Gateway) BatchInOrder(ctx context.Context, parallel int, calls Calls, done func(i int, a *Answer, err error)) {
	next, early := 0, map[int]ended{}
	g.batch(ctx, parallel, calls, func(o ended) {
		early[o.place] = o
		for {
			o, there := early[next]
			if !there {
				return
			}
			delete(early, next)
			next++
			done(o.place, o.answer, o.err)
			o.release()
		}
	})
}

// ended is the outcome of one call of a batch.
type ended struct {
	place   int
	answer  *Answer
	err     error
	release func()
}

func (g *Gateway) batch(ctx context.Context, parallel int, calls Calls, report func(ended)) {
	if parallel <= 0 {
		parallel = DefaultParallel
	}
	p := pool.New().WithMaxGoroutines(min(parallel, MaxParallel))
	account := budget.From(ctx)
	var mu sync.Mutex
	tell := func(o ended) {
		mu.Lock()
		defer mu.Unlock()
		report(o)
	}
	i := 0
	for c, refused := range calls {
		o := ended{place: i, release: func() {}}
		i++
		p.Go(func() {
			switch {
			case ctx.Err() != nil:
				o.err = unlooked(c, notBegun())
			case refused != nil:
				o.err = refused
			case account.Full():
				o.err = unlooked(c, fault.From(account.NotBegun()))
			default:
				var own context.Context
				own, o.release = budget.Part(ctx)
				o.answer, o.err = g.Do(own, c, nil)
			}
			tell(o)
		})
	}
	p.Wait()
}

// unlooked is the refusal of a call whose idempotency key is not looked up any more.
func unlooked(c *Call, f *fault.Error) error {
	if c == nil || c.IdempotencyKey == "" {
		return f
	}
	return speakingOf(f, fault.Unknown)
}

func notBegun() *fault.Error {
	return fault.New(fault.Cancelled, "the batch ended before this call began").Ran(fault.No)
}
