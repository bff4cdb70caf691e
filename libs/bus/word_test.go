package bus_test

import (
	"bytes"
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
)

// A call has ended before its last frame is sent, and its instance says so.
func TestEndedBeforeItsLastFrameLeaves(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var runs atomic.Int32
	s := handle(t, url, counted(&runs))
	req := effect("x")
	req.Id = bus.NewID()
	if _, err := newCaller(t, url).CallWith(t.Context(), "svc", req, bus.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := s.Leaving(req.Id); got != busv1.Outcome_STATE_ENDED {
		t.Errorf("the instance says %v", got)
	}
}

// Chunks that are lost while an instance has no NATS server leave a gap in the numbers of frames:
// without a gap, the rest would look like the whole result.
func TestLostChunksShow(t *testing.T) {
	t.Parallel()
	// A busy machine may be slower than the connection and lose nothing, or also lose the last
	// frame.
	var err error
	for range 5 {
		if err = loseChunks(t); err == nil {
			return
		}
	}
	t.Error(err)
}

// loseChunks loses some chunks; the error says that none were lost.
func loseChunks(t *testing.T) error {
	t.Helper()
	url := bustest.Server(t)
	n, conn := through(t, url)
	whole := append(append([]byte(`{"a":"`), bytes.Repeat([]byte{'x'}, 1<<20)...), `"}`...)
	running, release := make(chan struct{}, 1), make(chan struct{})
	s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		running <- struct{}{}
		<-release
		return &busv1.Result{Json: whole}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	nc := raw(t, url)
	frames := make(chan *nats.Msg, 256)
	if _, err := nc.ChanSubscribe("mcp.reply.svc.edge.r", frames); err != nil {
		t.Fatal(err)
	}
	req := toolCall(`{}`)
	req.Id, req.RemainingNano = "one", uint64(time.Minute)
	data, err := proto.Marshal(req)
	if err == nil {
		err = nc.PublishRequest("mcp.call.svc.tools.call", "mcp.reply.svc.edge.r", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the call runs", running)
	n.Cut()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
	conn.Settle(t.Context()) // it is no longer waited for
	n.Mend()
	close(release)
	size, seq, gap := 0, uint32(0), false
	for last := false; !last; {
		f := &busv1.Frame{}
		select {
		case msg := <-frames:
			if err := proto.Unmarshal(msg.Data, f); err != nil {
				t.Fatal(err)
			}
		case <-time.After(bustest.Promptly):
			return errors.New("the last frame was lost")
		}
		gap = gap || f.Seq != seq+1
		seq, last = f.Seq, f.GetResult() != nil
		size += len(f.GetChunk().GetData()) + len(f.GetResult().GetJson())
	}
	if size != len(whole) && !gap {
		t.Errorf("%d of %d bytes came, in frames without a gap", size, len(whole))
	}
	if size == len(whole) {
		return errors.New("nothing was lost")
	}
	return nil
}

// Services cannot ask an edge about calls: these may belong to others.
func TestServicesAskNothingOfCalls(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	s, err := bus.ServeGateway(t.Context(), bustest.Join(t, url), bus.ServerConfig{Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
	nc := raw(t, url)
	frames := make(chan *nats.Msg, 8)
	if _, err := nc.ChanSubscribe("mcp.reply.gateway.svc.me.r", frames); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"busbar/answer", "busbar/outcome"} {
		data, err := proto.Marshal(&busv1.Request{Id: method, Method: method, Name: "other/call", RemainingNano: uint64(time.Minute)})
		if err == nil {
			err = nc.PublishRequest("mcp.call.gateway.svc.tools.call", "mcp.reply.gateway.svc.me.r", data)
		}
		if err != nil {
			t.Fatal(err)
		}
		f := &busv1.Frame{}
		if err := proto.Unmarshal(await(t, "a frame", frames).Data, f); err != nil || f.GetOutcome() != nil {
			t.Errorf("%s: %v, %v", method, f, err)
		}
	}
}
