package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// call is how one call of a load ended.
type call struct {
	began   time.Time
	took    time.Duration
	message message
	err     error // of the transport
}

// failure is nil, the JSON-RPC error, or what else went wrong.
func (c call) failure() error {
	switch {
	case c.err != nil:
		return c.err
	case c.message.Error != nil:
		return c.message.Error
	case c.message.isError():
		return fmt.Errorf("the tool failed: %s", c.message.text())
	}
	return nil
}

// load is a number of clients that call one tool in a loop.
type load struct {
	stop func()
	wg   sync.WaitGroup

	mu    sync.Mutex
	calls []call
}

// startLoad has clients call a tool of the edge at url, each some forty times a second,
// until finish.
func startLoad(t testing.TB, url string, clients int, tool, arguments string) *load {
	t.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	t.Cleanup(func() { l.finish() })
	for n := range clients {
		l.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := modernCall(t, url, fmt.Sprintf("%d", n*1_000_000+i), tool, arguments).WithContext(context.Background())
				began := time.Now()
				got, err := trySend(r)
				l.mu.Lock()
				l.calls = append(l.calls, call{began, time.Since(began), got.message, err})
				l.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return l
}

// count is how many calls have ended so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// succeeds waits until a call that begins from now on succeeds.
func (l *load) succeeds(t testing.TB, limit time.Duration, what string) time.Duration {
	t.Helper()
	now := time.Now()
	return within(t, limit, what, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := len(l.calls) - 1; i >= 0 && l.calls[i].began.After(now); i-- {
			if l.calls[i].failure() == nil {
				return true
			}
		}
		return false
	})
}

// finish stops the clients and returns all calls.
func (l *load) finish() []call {
	l.stop()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// report has the figures by which a test judges a load.
type report struct {
	total, failed int
	slowest       time.Duration
	// kinds counts failures by reason and executed.
	kinds map[string]int
	// other is a failure that is no JSON-RPC error.
	other error
}

func (r report) String() string {
	return fmt.Sprintf("%d calls, %d failed %v, slowest %v", r.total, r.failed, r.kinds, r.slowest.Round(time.Millisecond))
}

func judge(calls []call) report {
	r := report{total: len(calls), kinds: map[string]int{}}
	for _, c := range calls {
		r.slowest = max(r.slowest, c.took)
		err := c.failure()
		if err == nil {
			continue
		}
		r.failed++
		if c.message.Error == nil {
			r.other = err
			continue
		}
		r.kinds[c.message.Error.Data.Reason+"/"+c.message.Error.Data.Executed]++
	}
	return r
}
