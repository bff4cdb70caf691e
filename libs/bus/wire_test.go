package bus_test

import (
	"context"
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

// A request that is delivered again does not run again.
func TestRequestDeliveredTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran atomic.Int32
	release := make(chan struct{})
	handle(t, url, func(_ context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		<-release
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	nc := raw(t, url)
	copies := make(chan *nats.Msg, 8)
	tap, err := nc.ChanSubscribe("mcp.call.svc.>", copies)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	caller := newCaller(t, url)
	done := make(chan error, 1)
	go func() {
		_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
		done <- err
	}()
	msg := await(t, "the request", copies)
	if err := tap.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	again := func(n int) {
		for range n {
			if err := nc.PublishRequest(msg.Subject, msg.Reply, msg.Data); err != nil {
				t.Error(err)
			}
		}
		if err := caller.Check(t.Context(), "svc"); err != nil { // read behind the copies
			t.Error(err)
		}
	}
	again(50) // while it runs
	close(release)
	if err := await(t, "the call ends", done); err != nil {
		t.Errorf("the call itself: %v", err)
	}
	again(50) // after it ran
	if n := ran.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// A request without a waiting caller, or an invalid one, does not run.
func TestServerIgnoresGarbage(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran atomic.Int32
	handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	nc := raw(t, url)
	replies := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("mcp.reply.svc.garbage.*", replies); err != nil {
		t.Fatal(err)
	}
	valid, err := proto.Marshal(&busv1.Request{Id: "x", Method: "tools/call", DeadlineUnixNano: uint64(time.Now().Add(time.Minute).UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("mcp.call.svc.tools.call", valid); err != nil { // no reply subject
		t.Fatal(err)
	}
	noID, _ := proto.Marshal(&busv1.Request{Method: "tools/call", DeadlineUnixNano: uint64(time.Now().Add(time.Minute).UnixNano())})
	for name, data := range map[string][]byte{"empty": nil, "text": []byte("hello"), "JSON": []byte(`{"jsonrpc":"2.0"}`), "no id": noID, "cut short": valid[:len(valid)-3]} {
		if err := nc.PublishRequest("mcp.call.svc.tools.call", "mcp.reply.svc.garbage.r", data); err != nil {
			t.Fatal(err)
		}
		frame := answered(t, replies)
		if e := frame.GetError(); e.GetExecuted() != busv1.Executed_EXECUTED_NO {
			t.Errorf("%s: answered with %v", name, frame)
		}
	}
	if _, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Error(err)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("%d requests ran", n)
	}
}

// A service answers only its own callers: a caller cannot use a reply subject to make it write
// where the caller may not.
func TestServerAnswersOnlyCallers(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var ran atomic.Int32
	handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		ran.Add(1)
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	nc := raw(t, url)
	heard := make(chan *nats.Msg, 16)
	for _, subject := range []string{"$KV.registry.>", "mcp.ctl.>", "mcp.reply.other.>", "anywhere"} {
		if _, err := nc.ChanSubscribe(subject, heard); err != nil {
			t.Fatal(err)
		}
	}
	for i, reply := range []string{"$KV.registry.svc.x", "mcp.ctl.svc.cancel", "mcp.reply.other.e.t", "mcp.reply.svcx.e.t", "anywhere", "mcp.call.svc.tools.call"} {
		data, err := proto.Marshal(&busv1.Request{Id: reply, Method: "tools/call", DeadlineUnixNano: uint64(time.Now().Add(time.Minute).UnixNano())})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest("mcp.call.svc.tools.call", reply, data); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	if n := ran.Load(); n != 1 {
		t.Errorf("%d requests ran, want the caller's one", n)
	}
	select {
	case msg := <-heard:
		t.Errorf("answered on %s: %q", msg.Subject, msg.Data)
	default:
	}
}

// A peer that sends without end is cut off, by memory and by time.
func TestEndlessAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	peer(t, url, func(nc *nats.Conn, msg *nats.Msg) {
		data := make([]byte, 512<<10)
		for i := range 40 {
			sendFrames(t, nc, msg.Reply, &busv1.Frame{Seq: uint32(i + 1), Body: &busv1.Frame_Chunk{Chunk: &busv1.Chunk{Data: data}}})
		}
	})
	_, err := newCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil)
	fails(t, err, fault.ResultTooLarge, fault.Yes)
}

// Frames from a sender that does not know the call's reply subject are discarded.
func TestStrayRepliesAreDropped(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	nc := raw(t, url)
	subjects := make(chan string, 1)
	peer(t, url, func(_ *nats.Conn, msg *nats.Msg) {
		subjects <- msg.Reply
		for _, stray := range []string{msg.Reply + "x", "mcp.reply.other." + msg.Reply[len("mcp.reply.svc."):], msg.Reply[:len(msg.Reply)-1]} {
			sendFrames(t, nc, stray, resultFrame(1, `{"stray":true}`))
		}
		_ = nc.Flush()
		sendFrames(t, nc, msg.Reply, resultFrame(1, `{}`))
	})
	caller := newCaller(t, url)
	frame, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
	if err != nil || string(frame.GetResult().GetJson()) != `{}` {
		t.Errorf("%v, %v", frame, err)
	}
	// The subject is useless once the call is over, and for the next call.
	old := await(t, "the subject", subjects)
	sendFrames(t, nc, old, resultFrame(1, `{"stray":true}`))
	if frame, err = caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil || string(frame.GetResult().GetJson()) != `{}` {
		t.Errorf("%v, %v", frame, err)
	}
}
