package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller makes calls one after another, and fails if an answer is not right.
type Caller interface {
	Call() error
	Close()
}

// Clients call at once, each one call at a time, over connections that they keep.
type Clients []Caller

// Close closes all connections.
func (c Clients) Close() {
	for _, one := range c {
		one.Close()
	}
}

// Result is the outcome of the calls of a round.
type Result struct {
	Calls int
	// Took is how long the round was, from its beginning to the last answer.
	Took time.Duration
	// Latencies are in order, the shortest first.
	Latencies []time.Duration
}

// Rate is in calls a second.
func (r Result) Rate() float64 { return float64(r.Calls) / r.Took.Seconds() }

// Quantile is the latency that a share q of the calls did not exceed.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Closed has each connection make calls one after another for a time: as many at once as
// there are connections. Latency is from the sending of each call.
func (c Clients) Closed(ctx context.Context, length time.Duration) (Result, error) {
	begin := time.Now()
	// One call is made also where the machine stood still for the whole round.
	var begun atomic.Bool
	return c.run(ctx, begin, func() (time.Time, bool) {
		now := time.Now()
		return now, !begun.Swap(true) || now.Sub(begin) < length
	})
}

// Open makes calls at a rate that does not depend on the answers. The latency of a call is
// from the moment at which it was due, not from its sending: what waits for a connection
// because earlier calls are slow is as late as its user would say it is.
func (c Clients) Open(ctx context.Context, rate float64, length time.Duration) (Result, error) {
	begin := time.Now()
	total := max(1, int64(rate*length.Seconds()))
	var next atomic.Int64
	return c.run(ctx, begin, func() (time.Time, bool) {
		n := next.Add(1) - 1
		if n >= total {
			return time.Time{}, false
		}
		due := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		return due, true
	})
}

// run has every connection call as often as next says; the first error ends all.
func (c Clients) run(ctx context.Context, begin time.Time, next func() (due time.Time, more bool)) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	latencies := make([][]time.Duration, len(c))
	var wg sync.WaitGroup
	for i, one := range c {
		wg.Go(func() {
			for ctx.Err() == nil {
				due, more := next()
				if !more {
					return
				}
				if err := Patiently(one.Call); err != nil {
					stop(err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(due))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	r := Result{Took: time.Since(begin), Latencies: slices.Concat(latencies...)}
	if r.Calls = len(r.Latencies); r.Calls == 0 {
		return Result{}, errors.New("no call was answered in the round")
	}
	slices.Sort(r.Latencies)
	return r, nil
}
