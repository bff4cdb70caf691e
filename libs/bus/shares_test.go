package bus_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// of is a call that counts for an account.
func of(account string, depth uint32) *busv1.Request {
	req := toolCall(`{}`)
	req.Name, req.Share = account, &busv1.Share{Payer: []byte(account), Depth: depth}
	return req
}

// A caller that makes as many calls as possible leaves waiting room and free slots for others.
func TestM13OneCallerLeavesRoom(t *testing.T) {
	t.Parallel()
	const size = 16
	url := bustest.Server(t)
	release := make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.Name == "hog" {
			<-release
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	const most = size - size/8 + 2*size // all but the spare slots, and half of the waiting room
	hog := make(chan error, 2*most)
	for range cap(hog) {
		go func() {
			_, err := caller.Call(t.Context(), "svc", of("hog", 0), nil)
			hog <- err
		}()
	}
	for range cap(hog) - most {
		fails(t, await(t, "what is too much is refused", hog), fault.Overloaded, fault.No)
	}
	bustest.Eventually(t, "as many calls of one caller as fit run or wait", func() bool { return s.Stats().InFlight == most })
	for i := range 20 {
		if _, err := caller.Call(within(t, bustest.Patience), "svc", of(fmt.Sprint("other", i%3), 0), nil); err != nil {
			t.Fatalf("another caller: %v", err)
		}
	}
	close(release)
	for range most {
		if err := await(t, "the calls of the first end", hog); err != nil {
			t.Error(err)
		}
	}
}

// Callers that wait get slots in turn, however many calls each has.
func TestM13WaitingCallersTakeTurns(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	started, step := make(chan string, 100), make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		started <- req.Name
		<-step
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	done := make(chan error, 10)
	there := 0
	call := func(account string) {
		go func() {
			_, err := caller.Call(t.Context(), "svc", of(account, 0), nil)
			done <- err
		}()
		there++
		bustest.Eventually(t, "the call is there, and has its place", func() bool {
			now := s.Stats()
			return now.Running+now.Waiting == there
		})
	}
	call("a")
	await(t, "the first runs", started)
	call("a")
	call("a")
	call("b")
	call("c")
	var order string
	for range 4 {
		step <- struct{}{}
		order += await(t, "the next runs", started)
	}
	step <- struct{}{}
	for range 5 {
		if err := await(t, "all end", done); err != nil {
			t.Error(err)
		}
	}
	if order != "abca" && order != "bcaa" {
		t.Errorf("they ran in the order %s", order)
	}
}

// Calls that a service's tools make to the same service do not wait for the slots of their callers.
func TestM13NestedCallsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const size, depth = 4, 4
	url := bustest.Server(t)
	caller := newCaller(t, url)
	var ran atomic.Int32
	serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: size, Handler: func(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		if d := req.GetShare().GetDepth(); d < depth {
			frame, err := caller.Call(ctx, "svc", of("p", d+1), nil)
			return frame.GetResult(), err
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	done := make(chan error, 2*size)
	for range cap(done) {
		go func() {
			_, err := caller.Call(t.Context(), "svc", of("p", 0), nil)
			done <- err
		}()
	}
	for range cap(done) {
		if err := await(t, "the calls end", done); err != nil {
			t.Error(err)
		}
	}
	if n := ran.Load(); n != (depth+1)*int32(cap(done)) {
		t.Errorf("%d calls ran", n)
	}
}

// Calls that give up while they wait leave nothing behind.
func TestM13GivenUpWhileWaiting(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	busy, release := make(chan struct{}, 1), make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		busy <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	caller := newCaller(t, url)
	first := make(chan error, 1)
	go func() {
		_, err := caller.Call(t.Context(), "svc", of("a", 0), nil)
		first <- err
	}()
	await(t, "the slot is taken", busy)
	for range 3 { // more than may wait
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 4)
		for i := range cap(gone) {
			go func() {
				_, err := caller.Call(ctx, "svc", of(fmt.Sprint(i%2), 0), nil)
				gone <- err
			}()
		}
		bustest.Eventually(t, "they wait", func() bool { return s.Stats().InFlight == 5 })
		cancel()
		for range cap(gone) {
			fails(t, await(t, "they give up", gone), fault.Cancelled, fault.Unknown)
		}
		bustest.Eventually(t, "they are gone", func() bool { return s.Stats().InFlight == 1 })
	}
	close(release)
	if err := await(t, "the first ends", first); err != nil {
		t.Error(err)
	}
	if _, err := caller.Call(t.Context(), "svc", of("b", 0), nil); err != nil {
		t.Error(err)
	}
}
