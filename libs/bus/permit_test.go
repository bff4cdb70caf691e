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
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// effect is a call that may have an effect.
func effect(name string) *busv1.Request {
	return &busv1.Request{Method: "tools/call", Name: name, AskFirst: true}
}

// counted is a handler that counts its runs and returns an empty result.
func counted(runs *atomic.Int32) bus.Handler {
	return func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		runs.Add(1)
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}
}

// instanceOf is an instance of "svc" whose frames the test writes, and that edges with a registry
// know.
func instanceOf(t *testing.T, url, name string, answer func(nc *nats.Conn, msg *nats.Msg)) *nats.Conn {
	t.Helper()
	nc := raw(t, url)
	_, err := nc.Subscribe("mcp.to.svc."+name+".>", func(msg *nats.Msg) { answer(nc, msg) })
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	known(t, url, name)
	return nc
}

// known announces an instance of "svc".
func known(t *testing.T, url, instance string) {
	t.Helper()
	announce(t, bustest.Connect(t, url), "svc", instance, "1.0.0", &busv1.Catalogue{Service: "svc"})
}

func readyFrame(instance string) *busv1.Frame {
	return &busv1.Frame{Instance: instance, Body: &busv1.Frame_Ready{Ready: &busv1.Ready{}}}
}

func TestH6PermitComesBeforeTheCall(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var runs atomic.Int32
	s := handle(t, url, counted(&runs))
	caller := newCaller(t, url)
	var asked []string
	_, err := caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{Permit: func(_ context.Context, instance string) error {
		asked = append(asked, instance)
		if runs.Load() != 0 {
			t.Error("it ran before it was permitted")
		}
		return nil
	}})
	if err != nil || runs.Load() != 1 || len(asked) != 1 || asked[0] != s.Instance() {
		t.Errorf("%v; %d runs, %q was asked for", err, runs.Load(), asked)
	}
	// A call without an effect asks for no permit.
	_, err = caller.CallWith(t.Context(), "svc", toolCall(`{}`), bus.Options{Permit: func(context.Context, string) error {
		t.Error("asked")
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

func TestH6PermitRefused(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var runs atomic.Int32
	s := handle(t, url, counted(&runs))
	caller := newCaller(t, url)
	plain := errors.New("no")
	for name, c := range map[string]struct {
		err      error
		reason   fault.Reason
		executed fault.Executed
	}{
		"with a fault":           {fault.New(fault.Conflict, "taken"), fault.Conflict, fault.No},
		"with one of its own":    {fault.New(fault.PeerLost, "the one before"), fault.PeerLost, fault.Unknown},
		"with one that is spent": {fault.New(fault.Overloaded, "full"), fault.Overloaded, fault.No},
		"with any error":         {plain, fault.Internal, fault.No},
	} {
		asked := 0
		_, err := caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{Permit: func(context.Context, string) error {
			asked++
			return c.err
		}})
		t.Log(name)
		fails(t, err, c.reason, c.executed)
		if !errors.Is(err, c.err) || asked != 1 {
			t.Errorf("%s: %v after %d questions", name, err, asked)
		}
	}
	bustest.Eventually(t, "the instance gives the calls up", func() bool { return s.Stats().InFlight == 0 })
	if n := runs.Load(); n != 0 {
		t.Errorf("%d refused calls ran", n)
	}
}

// A call that its caller gave up while it waited for a slot or for the permit does not run, and the
// caller knows.
func TestH6GivenUpBeforeItBegan(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	busy, release := make(chan struct{}, 1), make(chan struct{})
	var runs atomic.Int32
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		runs.Add(1)
		busy <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	first := make(chan error, 1)
	go func() {
		_, err := caller.Call(t.Context(), "svc", effect("x"), nil)
		first <- err
	}()
	await(t, "the slot is taken", busy)
	_, err := caller.Call(within(t, 300*time.Millisecond), "svc", effect("x"), nil)
	fails(t, err, fault.DeadlineExceeded, fault.No)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err = caller.Call(ctx, "svc", effect("x"), nil)
	fails(t, err, fault.Cancelled, fault.No)
	close(release)
	if err := await(t, "the first call ends", first); err != nil {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	_, err = caller.CallWith(ctx, "svc", effect("x"), bus.Options{Permit: func(context.Context, string) error {
		cancel()
		return nil
	}})
	fails(t, err, fault.Cancelled, fault.No)
	bustest.Eventually(t, "nothing is in flight", func() bool { return s.Stats().InFlight == 0 })
	if n := runs.Load(); n != 1 {
		t.Errorf("%d ran, want 1", n)
	}
}

// The calls of an instance that is lost before it began them move to another one, which asks the
// same caller for a permit again.
func TestH6LostBeforeItBeganRunsElsewhere(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(nc *nats.Conn, msg *nats.Msg){
		"gone when it is permitted": func(nc *nats.Conn, msg *nats.Msg) {
			data, _ := proto.Marshal(readyFrame("bad"))
			_ = nc.Publish(msg.Reply, data)
		},
		"full": func(nc *nats.Conn, msg *nats.Msg) {
			data, _ := proto.Marshal(&busv1.Frame{Seq: 1, Body: &busv1.Frame_Error{Error: &busv1.Error{Reason: "overloaded", Executed: busv1.Executed_EXECUTED_YES}}})
			_ = nc.Publish(msg.Reply, data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			var seen, runs atomic.Int32
			instanceOf(t, url, "bad", func(nc *nats.Conn, msg *nats.Msg) {
				seen.Add(1)
				answer(nc, msg)
			})
			good := handle(t, url, counted(&runs))
			known(t, url, good.Instance())
			caller := knowing(t, url, 2)
			calls := int32(0)
			for seen.Load() == 0 { // calls go to either one
				if calls++; calls > 100 {
					t.Fatal("no call of a hundred went to the bad instance")
				}
				var permitted []string
				_, err := caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{Permit: func(_ context.Context, instance string) error {
					permitted = append(permitted, instance)
					return nil
				}})
				if err != nil || len(permitted) == 0 || permitted[len(permitted)-1] != good.Instance() {
					t.Fatalf("%v; permitted %v", err, permitted)
				}
			}
			if n := runs.Load(); n != calls {
				t.Errorf("%d calls ran %d times", calls, n)
			}
		})
	}
}
