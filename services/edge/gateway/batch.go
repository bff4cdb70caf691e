package gateway

import (
	"context"
	"iter"
	"sync"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Bounds of a batch.
const (
	// DefaultParallel is how many calls of a batch run at once unless the door
	// says otherwise, MaxParallel the most it may say.
	DefaultParallel = 64
	MaxParallel     = 1024
)

// Batch carries out calls beside each other, at most parallel at once, 0 for
// DefaultParallel. Each passes the whole chain by itself, so that one that fails
// fails alone. done is given each outcome as it comes, with the call's place
// among the others; it is called by one goroutine at a time. No more calls are
// taken from the sequence than run, so that a batch may be longer than memory.
// When ctx ends, calls that run are cancelled and those not begun get an error
// that says nothing ran. Batch returns when done was called for every call.
func (g *Gateway) Batch(ctx context.Context, parallel int, calls iter.Seq[*Call], done func(i int, a *Answer, err error)) {
	if parallel <= 0 {
		parallel = DefaultParallel
	}
	p := pool.New().WithMaxGoroutines(min(parallel, MaxParallel))
	var mu sync.Mutex
	report := func(i int, a *Answer, err error) {
		mu.Lock()
		defer mu.Unlock()
		done(i, a, err)
	}
	i := 0
	for c := range calls {
		place := i
		i++
		if ctx.Err() != nil {
			report(place, nil, notBegun())
			continue
		}
		p.Go(func() {
			if ctx.Err() != nil {
				report(place, nil, notBegun())
				return
			}
			if c.Refused != nil {
				report(place, nil, c.Refused)
				return
			}
			a, err := g.Do(ctx, c, nil)
			report(place, a, err)
		})
	}
	p.Wait()
}

func notBegun() error {
	return fault.New(fault.Cancelled, "the batch ended before this call began").Ran(fault.No)
}
