package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
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

// alone is the only instance of "svc", which receives its permits.
func alone(t *testing.T, url string, answer func(*nats.Conn, *nats.Msg), permit func(*nats.Conn)) {
	t.Helper()
	nc := instanceOf(t, url, "one", answer)
	_, err := nc.Subscribe("mcp.call.svc.>", func(msg *nats.Msg) { answer(nc, msg) })
	if err == nil {
		_, err = nc.Subscribe("mcp.ctl.svc.permit.one", func(*nats.Msg) { permit(nc) })
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An instance's answer about a call on which it was silent is believed as far as it can be true.
func TestWordOnASilentCall(t *testing.T) {
	t.Parallel()
	forgotten := &busv1.Outcome{State: busv1.Outcome_STATE_FORGOTTEN}
	for name, c := range map[string]struct {
		says              *busv1.Outcome
		harmless, permits bool
		// requests is how many requests the instance receives; reason and executed say how the call
		// ends.
		requests int32
		reason   fault.Reason
		executed fault.Executed
	}{
		"forgotten, without an effect":   {says: forgotten, harmless: true, requests: 2},
		"forgotten, and never permitted": {says: forgotten, requests: 2},
		"forgotten, and permitted":       {says: forgotten, permits: true, requests: 1, reason: fault.PeerLost, executed: fault.Unknown},
		"ended, with nothing":            {says: &busv1.Outcome{State: busv1.Outcome_STATE_ENDED}, permits: true, requests: 1, reason: fault.Internal, executed: fault.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			var requests atomic.Int32
			answer := func(nc *nats.Conn, msg *nats.Msg) {
				req := &busv1.Request{}
				if err := proto.Unmarshal(msg.Data, req); err != nil {
					t.Error(err)
				}
				switch {
				case req.Method == "busbar/answer":
					sendFrames(t, nc, msg.Reply, &busv1.Frame{Seq: 1, Body: &busv1.Frame_Outcome{Outcome: c.says}})
				case requests.Add(1) > 1:
					sendFrames(t, nc, msg.Reply, resultFrame(1, `{}`))
				case c.permits:
					sendFrames(t, nc, msg.Reply, readyFrame("one"))
				}
			}
			alone(t, url, answer, func(*nats.Conn) {})
			caller := knowing(t, url, 1)
			call := func() error {
				requests.Store(0)
				req := effect("x")
				if c.harmless {
					req = toolCall(`{}`)
				}
				frame, err := caller.CallWith(t.Context(), "svc", req, bus.Options{Harmless: c.harmless})
				if got := requests.Load(); got != c.requests {
					return fmt.Errorf("the instance got %d requests, want %d: %v, %w", got, c.requests, frame, err)
				}
				if c.reason == "" {
					if err != nil || frame.GetResult() == nil {
						return fmt.Errorf("got %v, %w", frame, err)
					}
					return nil
				}
				if f := fault.From(err); err == nil || f.Reason != c.reason || f.Executed != c.executed {
					return fmt.Errorf("got %v, %w", frame, err)
				}
				return nil
			}
			// It has 250 ms for the answer, which a busy machine may miss.
			err := call()
			for n := 1; n < 5 && err != nil; n++ {
				err = call()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// An instance that asks again is permitted again. If one of these permits was not received, another
// may have been: it is not certain that the call did not begin.
func TestOnePermitOfTwoIsNotHeard(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var requests, permits atomic.Int32
	var reply atomic.Value
	alone(t, url, func(nc *nats.Conn, msg *nats.Msg) {
		requests.Add(1)
		reply.Store(msg.Reply)
		sendFrames(t, nc, msg.Reply, readyFrame("one"), readyFrame("one"))
	}, func(nc *nats.Conn) {
		if permits.Add(1) != 2 {
			return
		}
		at := reply.Load().(string)
		// In the form of NATS.
		if err := nc.PublishMsg(&nats.Msg{Subject: at, Header: nats.Header{"Status": []string{"503"}}}); err != nil {
			t.Error(err)
		}
		sendFrames(t, nc, at, resultFrame(1, `{}`))
	})
	frame, err := knowing(t, url, 1).CallWith(t.Context(), "svc", effect("x"), bus.Options{})
	if err != nil || frame.GetResult() == nil || requests.Load() != 1 {
		t.Errorf("got %v, %v, after %d requests", frame, err, requests.Load())
	}
}

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

// If all instances are slow, a call does not fail because of that: the last one tried gets the time
// of a live instance.
func TestAllInstancesAreSlow(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const instances = 5 // more than are tried
	var answers sync.WaitGroup
	defer answers.Wait()
	for n := range instances {
		name := fmt.Sprint("slow", n)
		nc := instanceOf(t, url, name, func(nc *nats.Conn, msg *nats.Msg) {
			req := &busv1.Request{}
			if err := proto.Unmarshal(msg.Data, req); err != nil || req.Method == "busbar/answer" {
				return // it is slow
			}
			answers.Add(1)
			time.AfterFunc(2*flow.MaxSilence, func() {
				defer answers.Done()
				sendFrames(t, nc, msg.Reply, readyFrame(name), resultFrame(1, `{}`))
			})
		})
		_, err := nc.Subscribe("mcp.ctl.svc.permit."+name, func(*nats.Msg) {})
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	for _, harmless := range []bool{true, false} {
		caller, req := knowing(t, url, instances), effect("x")
		if harmless {
			req = toolCall(`{}`)
		}
		calls.Go(func() {
			if _, err := caller.CallWith(t.Context(), "svc", req, bus.Options{Harmless: harmless}); err != nil {
				t.Errorf("without an effect %v: %v", harmless, err)
			}
		})
	}
	calls.Wait()
}
