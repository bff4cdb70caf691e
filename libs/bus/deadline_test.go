package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestDeadlineIsShavedAtTheHop(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	deadlines := make(chan time.Time, 1)
	handle(t, url, func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		d, _ := ctx.Deadline()
		deadlines <- d
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	caller := newCaller(t, url)
	call := func(ctx context.Context) (theirs, begun time.Time, took time.Duration) {
		t.Helper()
		begun = time.Now()
		if _, err := caller.Call(ctx, "svc", toolCall(`{}`), nil); err != nil {
			t.Fatal(err)
		}
		return await(t, "the handler runs", deadlines), begun, time.Since(begun)
	}
	// The deadline counts from the time when the server reads the request, so it is later by the
	// request's way there, which is part of the call's duration.
	ctx := within(t, bustest.Patience)
	mine, _ := ctx.Deadline()
	theirs, _, took := call(ctx)
	if got := mine.Sub(theirs); got > flow.HopShave || got < flow.HopShave-took {
		t.Errorf("the handler's deadline is %v before the caller's, want %v less the way there, of a call that took %v", got, flow.HopShave, took)
	}
	theirs, begun, took := call(t.Context())
	if left, want := theirs.Sub(begun), bus.DefaultTimeout-flow.HopShave; left < want || left > want+took {
		t.Errorf("a call without deadline that took %v gets %v, want %v and the way there", took, left, want)
	}
}

func TestDeadlinePassesDuringTheCall(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	stuck := make(chan struct{})
	ended := make(chan error, 100)
	handle(t, url, func(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.Name == "deaf" {
			<-stuck
			return &busv1.Result{}, nil
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	t.Cleanup(func() { close(stuck) })
	caller := newCaller(t, url)
	for _, name := range []string{"obedient", "deaf"} {
		bustest.Eventually(t, name+" is given up at its deadline", func() bool {
			start := time.Now()
			ctx := within(t, 300*time.Millisecond)
			_, err := caller.Call(ctx, "svc", &busv1.Request{Method: "tools/call", Name: name}, nil)
			took := time.Since(start)
			if fault.Is(err, fault.DeadlineExceeded) && fault.From(err).Executed == fault.No {
				return false // a busy machine has no time left to start it
			}
			fails(t, err, fault.DeadlineExceeded, fault.Unknown)
			if took > bustest.Promptly {
				t.Errorf("%s: ended after %v, not at its deadline", name, took)
			}
			if deadline, _ := ctx.Deadline(); time.Until(deadline) > flow.HopShave {
				t.Errorf("%s: ended %v before its deadline", name, time.Until(deadline))
			}
			return true
		})
	}
	// The handler ends by its own clock or because the caller cancels it, whichever comes first.
	if cause := await(t, "the handler's context ends", ended); !errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, context.Canceled) {
		t.Errorf("cause %v", cause)
	}
}

func TestCallRefusedWithTooLittleTime(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran atomic.Int32
	handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		return &busv1.Result{}, nil
	})
	caller := newCaller(t, url)
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 99 * time.Millisecond} {
		start := time.Now()
		_, err := caller.Call(within(t, d), "svc", toolCall(`{}`), nil)
		fails(t, err, fault.DeadlineExceeded, fault.No)
		if took := time.Since(start); took > bustest.Promptly {
			t.Errorf("%v left: refused after %v", d, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := caller.Call(ctx, "svc", toolCall(`{}`), nil)
	fails(t, err, fault.Cancelled, fault.No)
	if n := ran.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
	}
}

// A request that is read after its deadline is dropped unrun.
func TestLateRequestDoesNotRun(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran atomic.Int32
	handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		return &busv1.Result{}, nil
	})
	nc := raw(t, url)
	replies := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("mcp.reply.svc.late.*", replies); err != nil {
		t.Fatal(err)
	}
	for name, deadline := range map[string]uint64{
		"a second ago": uint64(time.Now().Add(-time.Second).UnixNano()), "never set": 0, "beyond int64": 1 << 63,
	} {
		data, err := proto.Marshal(&busv1.Request{Id: name, Method: "tools/call", DeadlineUnixNano: deadline})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest("mcp.call.svc.tools.call", "mcp.reply.svc.late.r", data); err != nil {
			t.Fatal(err)
		}
		frame := answered(t, replies)
		if e := frame.GetError(); e.GetReason() != string(fault.DeadlineExceeded) || e.GetExecuted() != busv1.Executed_EXECUTED_NO {
			t.Errorf("%s: answered with %v", name, frame)
		}
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d late requests ran", n)
	}
}

func TestOverload(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	release := make(chan struct{})
	var running, most atomic.Int32
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	const fit = 5 // one runs, four wait
	done := make(chan error, fit)
	for range fit {
		go func() {
			_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
			done <- err
		}()
	}
	bustest.Eventually(t, "slot and queue are full", func() bool { return s.Stats().InFlight == fit })
	for range 10 { // none waits for earlier ones, which have not ended
		_, err := caller.Call(within(t, bustest.Patience), "svc", toolCall(`{}`), nil)
		fails(t, err, fault.Overloaded, fault.No)
	}
	if len(done) != 0 {
		t.Error("a call that fits has ended")
	}
	close(release)
	for range fit {
		if err := await(t, "those that fit are answered", done); err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d ran at once", most.Load())
	}
	if _, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Errorf("after the rush: %v", err)
	}
	if st := s.Stats(); st.Served != fit+1 || st.Failed != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestCancelReachesOnlyTheHolder(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	type held struct {
		instance int
		id       string
		ctx      context.Context
	}
	calls := make(chan held, 8)
	for i := range 2 {
		serve(t, url, bus.ServerConfig{Service: "svc", Handler: func(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
			calls <- held{i, req.Id, ctx}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	}
	caller := newCaller(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	one, rest := make(chan error, 1), make(chan error, 8)
	go func() {
		_, err := caller.Call(ctx, "svc", toolCall(`{}`), nil)
		one <- err
	}()
	target := await(t, "the call runs", calls)
	others := []held{}
	restCtx, cancelRest := context.WithCancel(t.Context())
	for range 6 {
		go func() {
			_, err := caller.Call(restCtx, "svc", toolCall(`{}`), nil)
			rest <- err
		}()
		others = append(others, await(t, "another call runs", calls))
	}
	start := time.Now()
	cancel()
	fails(t, await(t, "the call ends", one), fault.Cancelled, fault.Unknown)
	await(t, "the handler is told", target.ctx.Done())
	if took := time.Since(start); took > bustest.Promptly {
		t.Errorf("cancelling took %v", took)
	}
	if errors.Is(context.Cause(target.ctx), context.DeadlineExceeded) {
		t.Error("the handler takes the cancellation for its deadline")
	}
	for _, o := range others {
		if o.ctx.Err() != nil {
			t.Errorf("call %s on instance %d was cancelled too", o.id, o.instance)
		}
	}
	cancelRest()
	for range others {
		fails(t, await(t, "the other calls end", rest), fault.Cancelled, fault.Unknown)
	}
}

// A cancellation may overtake its request: they travel on two subscriptions.
func TestCancelMayComeFirst(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	ended, started := make(chan struct{}, 100), make(chan struct{}, 100)
	handle(t, url, func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	nc := raw(t, url)
	for i := range 100 {
		id := string(rune('A'+i%26)) + time.Now().String()
		cancel, _ := proto.Marshal(&busv1.Cancel{Id: id})
		request, _ := proto.Marshal(&busv1.Request{Id: id, Method: "tools/call", DeadlineUnixNano: uint64(time.Now().Add(30 * time.Second).UnixNano())})
		first, then := "mcp.ctl.svc.cancel", "mcp.call.svc.tools.call"
		if err := errors.Join(nc.Publish(first, cancel), nc.PublishRequest(then, "mcp.reply.svc.nobody.r", request)); err != nil {
			t.Fatal(err)
		}
	}
	caller := newCaller(t, url)
	if err := caller.Check(t.Context(), "svc"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "no cancelled call runs on", func() bool { return len(started) == len(ended) })
}

func TestMalformedCancelIsIgnored(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, echo)
	nc := raw(t, url)
	for _, data := range []string{"", "garbage", "\xff\xff\xff", `{"id":"x"}`} {
		if err := nc.Publish("mcp.ctl.svc.cancel", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Error(err)
	}
}
