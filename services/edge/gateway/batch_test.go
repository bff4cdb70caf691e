package gateway_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func calls(n int, tool func(i int) *gateway.Call) gateway.Calls {
	return func(yield func(*gateway.Call, error) bool) {
		for i := range n {
			if !yield(tool(i), nil) {
				return
			}
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	t.Run("each call has its place and fails alone", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		const n = 500
		seen := make([]int, n)
		w.gateway.Batch(t.Context(), 16, calls(n, func(i int) *gateway.Call {
			if i%5 == 0 {
				return toolCall("unknown", "{}")
			}
			return toolCall("echo", `{"i":`+strconv.Itoa(i)+`}`)
		}), func(i int, a *gateway.Answer, err error) {
			seen[i]++
			switch {
			case i%5 == 0 && !fault.Is(err, fault.UnknownTool):
				t.Errorf("%d: %v", i, err)
			case i%5 != 0 && (err != nil || string(a.Result.GetJson()) != `{"content":[{"type":"text","text":"{\"i\":`+strconv.Itoa(i)+`}"}]}`):
				t.Errorf("%d: %v, %v", i, a, err)
			}
		})
		for i, times := range seen {
			if times != 1 {
				t.Errorf("%d was reported %d times", i, times)
			}
		}
	})
	t.Run("no more are taken than run", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		var taken atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.gateway.Batch(t.Context(), 4, calls(20, func(int) *gateway.Call {
				taken.Add(1)
				return toolCall("hold", "{}")
			}), func(_ int, _ *gateway.Answer, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}()
		for range 4 {
			<-w.svc.Started
		}
		for range 20 {
			if n := taken.Load(); n > 20 || w.svc.Calls.Load() > int64(20) || n-w.svc.Calls.Load() > 5 {
				t.Errorf("%d taken, %d begun", n, w.svc.Calls.Load())
			}
			w.svc.Release <- struct{}{}
		}
		<-ended
	})
	t.Run("when it is given up, what runs is cancelled and the rest never begins", func(t *testing.T) {
		t.Parallel()
		w := start(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-w.svc.Started
			<-w.svc.Started
			cancel()
		}()
		var no, unknown int
		w.gateway.Batch(ctx, 2, calls(50, func(int) *gateway.Call { return toolCall("hold", "{}") }), func(_ int, _ *gateway.Answer, err error) {
			if !fault.Is(err, fault.Cancelled) {
				t.Errorf("%v", err)
			}
			if fault.From(err).Executed == fault.No {
				no++
			} else {
				unknown++
			}
		})
		if no != 48 || unknown != 2 {
			t.Errorf("%d did not run, %d may have", no, unknown)
		}
		bustest.Eventually(t, "both handlers hear of it", func() bool { return len(w.svc.Ended) == 2 })
		if n := w.svc.Calls.Load(); n != 2 {
			t.Errorf("%d began", n)
		}
	})
}
