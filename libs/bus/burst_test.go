package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A burst of large results for one edge: no live service is considered lost, and the small answers
// of another service keep arriving.
func TestD6BurstOfLargeResults(t *testing.T) {
	t.Parallel()
	// A single small call that the machine delays can take as long as the burst.
	var err error
	for range 3 {
		if err = burst(t); err == nil || t.Failed() {
			return
		}
	}
	t.Error(err)
}

// burst makes one burst; the error says that the small calls waited behind it.
func burst(t *testing.T) error {
	t.Helper()
	const calls = 60
	url := bustest.Server(t)
	large := []byte(`"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"`)
	large = append(append([]byte(`{"a":`), large...), '}')
	var all sync.WaitGroup
	all.Add(calls)
	serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: calls, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.Name == "large" {
			all.Done()
			all.Wait() // so that they arrive together
			return &busv1.Result{Json: large}, nil
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	serve(t, url, bus.ServerConfig{Service: "other", Handler: echo})
	caller := newCaller(t, url)

	results := make(chan error, calls)
	for range calls {
		go func() {
			frame, err := caller.Call(within(t, 5*bustest.Patience), "svc", &busv1.Request{Method: "tools/call", Name: "large"}, nil)
			if err == nil && len(frame.GetResult().GetJson()) != len(large) {
				err = fault.New(fault.Internal, "%d bytes", len(frame.GetResult().GetJson()))
			}
			results <- err
		}()
	}
	begun := time.Now()
	var small []time.Duration
	for left := calls; left > 0; {
		select {
		case err := <-results:
			if left--; err != nil {
				t.Errorf("a large result: %v", err)
			}
			continue
		default:
		}
		for _, service := range []string{"other", "svc"} {
			at := time.Now()
			if _, err := caller.Call(within(t, bustest.Patience), service, &busv1.Request{Method: "tools/call", Name: "echo", Arguments: []byte(`{}`)}, nil); err != nil {
				t.Errorf("a small call of %s during the burst: %v", service, err)
			}
			small = append(small, time.Since(at))
		}
	}
	burst := time.Since(begun)
	slices.Sort(small)
	half, worst := small[len(small)/2], small[len(small)-1]
	t.Logf("the burst took %v; of %d small calls meanwhile half took %v, the worst %v", burst, len(small), half, worst)
	// If the calls waited behind the burst, there would be one of each service.
	if len(small) < 20 {
		return fmt.Errorf("%d small calls were answered during the burst", len(small))
	}
	if half > burst/10 {
		return fmt.Errorf("half of the small calls took %v of the burst's %v", half, burst)
	}
	return nil
}
