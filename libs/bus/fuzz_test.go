package bus

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// FuzzFrame gives arbitrary bytes to the answer of a call. The caller must neither panic nor keep
// more than the largest result.
func FuzzFrame(f *testing.F) {
	for _, frame := range []*busv1.Frame{
		{Seq: 1, Body: &busv1.Frame_Result{Result: &busv1.Result{Json: []byte(`{}`)}}},
		{Seq: 1, Body: &busv1.Frame_Chunk{Chunk: &busv1.Chunk{Data: []byte(`{`)}}},
		{Seq: 1, Body: &busv1.Frame_Error{Error: &busv1.Error{Reason: "x", Executed: 99}}},
		{Seq: 1, Body: &busv1.Frame_Result{}}, {Seq: 1, Body: &busv1.Frame_Error{}}, {Seq: 1, Body: &busv1.Frame_Task{}},
		{Seq: 1<<32 - 1, Body: &busv1.Frame_Alive{}}, {Seq: 1}, {Instance: "a.b", Body: &busv1.Frame_Ready{}},
	} {
		f.Add(encode(frame), encode(frame), uint32(0))
	}
	f.Add([]byte(nil), []byte(`{"stream":"S","seq":1}`), uint32(7))
	f.Fuzz(func(t *testing.T, first, second []byte, skipped uint32) {
		a := attempt{caller: &Caller{conn: &Conn{log: slog.New(slog.DiscardHandler)}}, service: "svc", options: Options{OnFrame: func(*busv1.Frame) {}}}
		for _, data := range [][]byte{first, second} {
			frame, err := a.take(t.Context(), arrival{msg: &nats.Msg{Data: data}, skipped: skipped})
			if frame != nil && err != nil {
				t.Fatal("both a frame and an error")
			}
			if err != nil && (err.Reason == "" && a.state.Seq == 0 || err.Executed == "") {
				t.Errorf("error without meaning: %+v", err)
			}
			if frame != nil && frame.GetResult() == nil && frame.GetInputRequired() == nil && frame.GetTask() == nil {
				t.Errorf("ended with %v", frame)
			}
			if frame != nil || err != nil {
				return
			}
			_ = isNotification(data)
		}
		if a.size > MaxResult {
			t.Error("kept more than a result")
		}
	})
}

// FuzzRequest gives arbitrary bytes to a server. It must not panic, and runs
// the handler only for a request with an id that is in time.
func FuzzRequest(f *testing.F) {
	soon := uint64(time.Now().Add(time.Hour).UnixNano())
	for _, r := range []*busv1.Request{
		{Id: "a", Method: "tools/call", DeadlineUnixNano: soon}, {Id: "a", DeadlineUnixNano: 1 << 63}, {Id: "a"}, {Method: "busbar/check"}, {},
		{Id: "a", RemainingNano: 1 << 63}, {Id: "a", RemainingNano: 1, AskFirst: true}, {Id: "a", Share: &busv1.Share{Depth: 1 << 31}},
	} {
		f.Add(encode(r))
	}
	f.Add([]byte("garbage"))
	nc := &nats.Conn{}
	quiet := slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &Server{
			conn: &Conn{nc: nc, log: quiet}, instance: "i",
			live: map[string]*liveCall{}, ctx: t.Context(),
		}
		for i := range s.slots {
			s.slots[i], s.budgets[i] = newSlots(1), newSlots(1)
		}
		s.cfg = ServerConfig{Service: "svc", Concurrency: 1, Handler: func(_ context.Context, req *busv1.Request, _ *Responder) (proto.Message, error) {
			if req.Id == "" || req.AskFirst || req.RemainingNano == 0 && int64(req.DeadlineUnixNano) < time.Now().UnixNano() {
				t.Errorf("runs %v", req)
			}
			return &busv1.Result{}, nil
		}}
		out := newResponder(s, "mcp.reply.svc.e.t")
		defer out.close()
		s.handle(data, time.Now(), out)
		s.cancel(&nats.Msg{Data: data})
	})
}

func TestRecentCallsForgetNoneInTime(t *testing.T) {
	t.Parallel()
	var r recentCalls
	id := func(i int) string { return string(rune(i)) + "x" }
	const n = 3*generation + 1
	for i := range n {
		if !r.add(id(i), time.Now().Add(time.Hour)) {
			t.Fatalf("call %d is new, but refused", i)
		}
	}
	for i := range n {
		if r.add(id(i), time.Now().Add(time.Hour)) {
			t.Fatalf("call %d was forgotten before its deadline", i)
		}
	}
	// Calls whose deadlines have passed are forgotten.
	var past recentCalls
	for i := range 10 * generation {
		past.add(id(i), time.Now().Add(-time.Second))
	}
	if kept := len(past.young) + len(past.old); kept > 2*generation {
		t.Errorf("%d calls are kept although their deadlines have passed", kept)
	}
}

// A tool with a time limit of a day next to a busy tool does not increase the number kept.
func TestL8RecentCallsAreBounded(t *testing.T) {
	t.Parallel()
	var r recentCalls
	far := time.Now().Add(24 * time.Hour)
	const n = 3 * maxRecent
	for i := range n {
		if !r.add(strconv.Itoa(i), far) {
			t.Fatalf("call %d is new, but refused", i)
		}
		if kept := len(r.young) + len(r.old); kept > maxRecent {
			t.Fatalf("%d calls are kept", kept)
		}
	}
	for i := n - maxRecent/2; i < n; i++ {
		if r.add(strconv.Itoa(i), far) {
			t.Fatalf("call %d of %d is forgotten", i, n)
		}
	}
}
