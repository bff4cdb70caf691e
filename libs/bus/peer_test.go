package bus_test

import (
	"context"
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

// An instance that vanishes ends its calls in under a second.
func TestPeerLost(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	_, conn := serve(t, url, bus.ServerConfig{Service: "svc", Handler: func(ctx context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		started <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	t.Cleanup(func() { close(release) })
	ended := make(chan error, 1)
	caller := newCaller(t, url)
	go func() {
		_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		ended <- err
	}()
	await(t, "the call runs", started)
	start := time.Now()
	conn.Close()
	fails(t, await(t, "the call ends", ended), fault.PeerLost, fault.Unknown)
	if took := time.Since(start); took > noticeTime {
		t.Errorf("noticed after %v", took)
	}
}

// noticeTime is how soon a lost peer is noticed: under a second where the bus answers at once, and
// later on a slow machine.
const noticeTime = bustest.Promptly

func TestSlowHandlerIsAlive(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const signs = 5 // a caller that did not hear these would give up by the fourth
	nc := raw(t, url)
	replies := make(chan *nats.Msg, 64)
	if _, err := nc.ChanSubscribe("mcp.reply.>", replies); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	handle(t, url, func(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		for range signs {
			select {
			case <-replies:
			case <-ctx.Done():
			}
		}
		return &busv1.Result{Json: req.Arguments}, nil
	})
	frames := 0
	frame, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{"a":1}`), func(*busv1.Frame) { frames++ })
	if err != nil || string(frame.GetResult().GetJson()) != `{"a":1}` {
		t.Errorf("%v, %v", frame, err)
	}
	if frames != 0 {
		t.Errorf("%d signs of life were shown to the caller", frames)
	}
	if frame.GetSeq() <= signs {
		t.Errorf("only %d frames", frame.GetSeq())
	}
}

// A call that waits for a slot does not seem dead.
func TestQueuedCallIsAlive(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	busy, release := make(chan struct{}, 2), make(chan struct{})
	serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		busy <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
			done <- err
		}()
	}
	await(t, "one call runs", busy)
	select {
	case err := <-done:
		t.Fatalf("a call ended: %v", err)
	case <-time.After(2 * flow.MaxSilence):
	}
	close(release)
	for range 2 {
		if err := await(t, "both are answered", done); err != nil {
			t.Error(err)
		}
	}
}

// Fast calls have no extra cost: one frame, no heartbeat.
func TestFastCallIsOneFrame(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, echo)
	nc := raw(t, url)
	replies := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("mcp.reply.>", replies); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	caller := newCaller(t, url)
	unspoilt(t, func() bool {
		frame, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range frame.Seq {
			await(t, "the answer", replies)
		}
		return frame.Seq == 1
	})
	select {
	case msg := <-replies:
		t.Errorf("another frame: %q", msg.Data)
	case <-time.After(2 * flow.FirstAlive):
	}
}

// Reports of a handler after the terminal frame are ignored.
func TestNothingFollowsTheResult(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	outs := make(chan *bus.Responder, 1)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		outs <- out
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	nc := raw(t, url)
	replies := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("mcp.reply.>", replies); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	answered(t, replies)
	out := await(t, "the responder", outs)
	out.Progress(&busv1.Progress{Progress: 1})
	out.Log(&busv1.Log{})
	select {
	case msg := <-replies:
		t.Errorf("heard: %q", msg.Data)
	case <-time.After(2 * flow.FirstAlive):
	}
}

func TestPanicLeavesTheProcessAlive(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	s := handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		switch req.Name {
		case "value":
			panic("boom")
		case "nil map":
			var m map[string]int
			//lint:ignore SA5000 the panic is what is tested
			m["a"] = 1
		case "error":
			panic(context.Canceled)
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	caller := newCaller(t, url)
	for _, name := range []string{"value", "nil map", "error"} {
		_, err := caller.Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: name}, nil)
		fails(t, err, fault.Internal, fault.Unknown)
	}
	if _, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Errorf("after the panics: %v", err)
	}
	if st := s.Stats(); st.Served != 4 || st.Failed != 3 {
		t.Errorf("stats %+v", st)
	}
}
