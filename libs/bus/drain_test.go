package bus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Draining answers everything in flight, running or waiting for a slot.
func TestDrainAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 10, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		<-release
		return &busv1.Result{Json: req.Arguments}, nil
	}})
	t.Cleanup(free)
	caller := newCaller(t, url)
	const n = 40
	errs := make(chan error, n)
	for i := range n {
		go func() {
			want := fmt.Sprintf(`{"i":%d}`, i)
			frame, err := caller.Call(t.Context(), "svc", toolCall(want), nil)
			if err == nil && string(frame.GetResult().GetJson()) != want {
				err = fmt.Errorf("%s answered with %v", want, frame)
			}
			errs <- err
		}()
	}
	bustest.Eventually(t, "all are in flight", func() bool { return s.Stats().InFlight == n })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	bustest.Eventually(t, "new calls are refused", func() bool {
		_, err := caller.Call(within(t, 300*time.Millisecond), "svc", &busv1.Request{Method: "busbar/check"}, nil)
		return fault.Is(err, fault.Unavailable)
	})
	select {
	case err := <-drained:
		t.Fatalf("drained with calls in flight: %v", err)
	default:
	}
	free()
	for range n {
		if err := await(t, "every call is answered", errs); err != nil {
			t.Error(err)
		}
	}
	if err := await(t, "the drain ends", drained); err != nil {
		t.Error(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("draining again: %v", err)
	}
}

// If there is another instance, a drain loses no call.
func TestDrainUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran [2]atomic.Int64
	var servers [2]*bus.Server
	for i := range servers {
		servers[i], _ = serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 100, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
			ran[i].Add(1)
			return &busv1.Result{Json: req.Arguments}, nil
		}})
	}
	caller := newCaller(t, url)
	stop := make(chan struct{})
	var load sync.WaitGroup
	var failed recorder[error]
	for range 8 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
					failed.add(err)
				}
			}
		})
	}
	bustest.Eventually(t, "both instances work", func() bool { return ran[0].Load() > 50 && ran[1].Load() > 50 })
	if err := servers[0].Drain(t.Context()); err != nil {
		t.Error(err)
	}
	frozen, other := ran[0].Load(), ran[1].Load()
	bustest.Eventually(t, "the other takes over", func() bool { return ran[1].Load() > other+200 })
	close(stop)
	load.Wait()
	for _, err := range failed.all() {
		t.Error(err)
	}
	if ran[0].Load() != frozen {
		t.Error("the drained instance took calls")
	}
}

// A drain that runs out of time cancels what still runs, and says so.
func TestDrainOutOfTime(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	started := make(chan struct{}, 1)
	s := handle(t, url, func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ended := make(chan error, 1)
	caller := newCaller(t, url)
	go func() {
		_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		ended <- err
	}()
	await(t, "the call runs", started)
	start := time.Now()
	if err := s.Drain(within(t, 100*time.Millisecond)); err == nil {
		t.Error("no error, though a call was cut off")
	}
	if took := time.Since(start); took > bustest.Promptly {
		t.Errorf("took %v", took)
	}
	fails(t, await(t, "the call is answered", ended), fault.Cancelled, fault.Unknown)
}

// A handler that ignores its context does not hold up the process.
func TestDrainLeavesDeafHandlersBehind(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	s := handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		started <- struct{}{}
		<-release
		return &busv1.Result{}, nil
	})
	t.Cleanup(func() { close(release) })
	caller := newCaller(t, url)
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = caller.Call(ctx, "svc", toolCall(`{}`), nil)
	}()
	await(t, "the call runs", started)
	start := time.Now()
	if err := s.Drain(within(t, 100*time.Millisecond)); err == nil {
		t.Error("no error, though a call was left behind")
	}
	if took := time.Since(start); took > bustest.Promptly {
		t.Errorf("took %v", took)
	}
	giveUp()
	await(t, "the call ends", ended)
}

// Draining does not hang when the bus is gone.
func TestDrainWithoutBus(t *testing.T) {
	t.Parallel()
	ns := bustest.Start(t, bustest.Config{})
	conn := bustest.Connect(t, ns.URL)
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: echo})
	if err != nil {
		t.Fatal(err)
	}
	ns.Stop()
	bustest.Eventually(t, "the bus is seen to be gone", func() bool { return !conn.Connected() })
	done := make(chan error, 1)
	go func() { done <- s.Drain(within(t, bustest.Patience)) }()
	select {
	case <-done:
	case <-time.After(bustest.Promptly):
		t.Error("nothing is in flight, yet draining takes the time that it has")
	}
	conn.Close()
}
