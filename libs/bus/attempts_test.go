package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// Two attempts of a call reach one instance. The first is refused while the second runs: the
// instance remembers the call until it ends, and afterwards how it ended.
func TestD3ARefusedAttemptDoesNotForgetTheOneThatRuns(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	busy, release := make(chan struct{}, 1), make(chan struct{})
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		busy <- struct{}{}
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	nc := raw(t, url)
	replies, err := nc.SubscribeSync("mcp.reply.svc.att.*")
	if err != nil {
		t.Fatal(err)
	}
	// next returns the next frame of an attempt that about accepts.
	next := func(id string, about func(*busv1.Frame) bool) *busv1.Frame {
		t.Helper()
		for {
			msg, err := replies.NextMsg(30 * time.Second)
			if err != nil {
				t.Fatalf("a frame of %s: %v", id, err)
			}
			f := &busv1.Frame{}
			if proto.Unmarshal(msg.Data, f) == nil && msg.Subject == "mcp.reply.svc.att."+id && about(f) {
				return f
			}
		}
	}
	publish := func(subject, reply string, m proto.Message) {
		t.Helper()
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	// attempt sends an attempt, and returns the turn of the question whether it may begin.
	attempt := func(id string) uint32 {
		t.Helper()
		publish("mcp.to.svc."+s.Instance()+".tools.call", "mcp.reply.svc.att."+id, &busv1.Request{
			Id: id, Method: "tools/call", Name: "x", AskFirst: true, IdempotencyKey: "k",
			DeadlineUnixNano: uint64(time.Now().Add(time.Minute).UnixNano()), RemainingNano: uint64(time.Minute),
		})
		return next(id, func(f *busv1.Frame) bool { return f.GetReady() != nil }).GetReady().Turn
	}
	permit := "mcp.ctl.svc.permit." + s.Instance()
	caller := newCaller(t, url)
	says := func(want bus.CallState) {
		t.Helper()
		var state bus.CallState
		// The question takes 250 ms at most, which a slow machine may not keep.
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			if state, _, _ = caller.Outcome(t.Context(), "svc", s.Instance(), "abc"); state != bus.CallUnknown && state != bus.CallGone {
				break
			}
		}
		if state != want {
			t.Errorf("the instance says %d of the call, want %d", state, want)
		}
	}
	attempt("abc")
	turn := attempt("abc-2")
	publish(permit, "", &busv1.Permit{Id: "abc-2", Granted: true, Turn: turn})
	await(t, "the second attempt runs", busy)
	publish(permit, "", &busv1.Permit{Id: "abc"})
	next("abc", func(f *busv1.Frame) bool { return f.GetError() != nil })
	says(bus.CallRunning)
	close(release)
	next("abc-2", func(f *busv1.Frame) bool { return f.GetResult() != nil })
	says(bus.CallEnded)
	// A third attempt that is refused does not change that.
	attempt("abc-3")
	publish(permit, "", &busv1.Permit{Id: "abc-3"})
	next("abc-3", func(f *busv1.Frame) bool { return f.GetError() != nil })
	says(bus.CallEnded)
}
