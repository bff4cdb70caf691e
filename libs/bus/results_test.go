package bus_test

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// Calls with large results run concurrently as far as the budget allows; calls with small results
// do not wait.
func TestLargeResultsHaveRoom(t *testing.T) {
	t.Parallel()
	const calls, size, fit = 24, 8<<20 - 100, 8 // of 64 MiB
	url := bustest.Server(t)
	release := make(chan struct{})
	var begun, running, most, heap atomic.Int64
	raise := func(to *atomic.Int64, n int64) {
		for old := to.Load(); n > old && !to.CompareAndSwap(old, n); old = to.Load() {
		}
	}
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 2 * calls, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.Name != "large" {
			return &busv1.Result{Json: []byte(`{}`)}, nil
		}
		raise(&most, running.Add(1))
		defer running.Add(-1)
		result := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), size)...), `"}`...)
		if begun.Add(1) > 1 {
			<-release
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		raise(&heap, int64(m.HeapAlloc))
		return &busv1.Result{Json: result}, nil
	}})
	caller := newCaller(t, url)
	large := func() error {
		_, err := caller.CallWith(within(t, 5*bustest.Patience), "svc", &busv1.Request{Method: "tools/call", Name: "large"}, bus.Options{Harmless: true})
		return err
	}
	if err := large(); err != nil { // the first shows their size
		t.Fatal(err)
	}
	ended := make(chan error, calls)
	for range calls {
		go func() { ended <- large() }()
	}
	bustest.Eventually(t, "all are at the instance", func() bool { return s.Stats().InFlight == calls })
	bustest.Eventually(t, "as many as fit run", func() bool { return running.Load() == fit })
	for range 20 {
		if _, err := caller.Call(within(t, bustest.Promptly), "svc", &busv1.Request{Method: "tools/call", Name: "small"}, nil); err != nil {
			t.Errorf("a small call: %v", err)
		}
	}
	close(release)
	for range calls {
		if err := await(t, "a call ends", ended); err != nil {
			t.Error(err)
		}
	}
	if got := most.Load(); got > fit {
		t.Errorf("%d ran at once; %d have room", got, fit)
	}
	t.Logf("the heap had %d MiB at most", heap.Load()>>20)
}
