package bus

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// FuzzFrame gives arbitrary bytes to the answer of a call. It must neither
// panic nor keep more than a result's worth.
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
		a := answer{caller: &Caller{conn: &Conn{log: slog.New(slog.DiscardHandler)}}, service: "svc", options: Options{OnFrame: func(*busv1.Frame) {}}}
		for _, data := range [][]byte{first, second} {
			frame, err := a.take(t.Context(), arrival{msg: &nats.Msg{Data: data}, skipped: skipped})
			if frame != nil && err != nil {
				t.Fatal("both a frame and an error")
			}
			if err != nil && (err.Reason == "" && a.seq == 0 || err.Executed == "") {
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
			s.slots[i] = newSlots(1)
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
		if _, ok := parseRegistry("$KV.registry.a.b", nil, data); ok {
			ann := &busv1.Announcement{}
			if proto.Unmarshal(data, ann) != nil || ann.Service != "a" || ann.Instance != "b" {
				t.Errorf("believes %v", ann)
			}
		}
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
	// Those whose deadlines have passed make room.
	var past recentCalls
	for i := range 10 * generation {
		past.add(id(i), time.Now().Add(-time.Second))
	}
	if kept := len(past.young) + len(past.old); kept > 2*generation {
		t.Errorf("%d calls are kept although their deadlines have passed", kept)
	}
}

// One tool with a time limit of a day beside a busy one keeps no more.
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

// FuzzSubject gives arbitrary subjects to what reads those of streams: a
// service may keep frames only below its own name, at one subject exactly.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{
		streamSubject("svc", "edge1", "stream", 7, "call"), liveSubject(streamSubject("svc", "e", "s", 1, "c")), updatedSubject("svc"),
		"mcp.evt.svc.e.s.x.c", "mcp.evt.svc.*.s.1.>", "mcp.evt.svc.e.s.1.c d", "mcp.evt..e.s.1.c", "......", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		service, round, call, ok := roundOf(subject)
		if !ok {
			if ownStream("svc", subject) {
				t.Errorf("frames are kept at %q", subject)
			}
			return
		}
		if round == 0 || ValidName(service) != nil || ValidName(call) != nil || strings.ContainsAny(strings.SplitN(subject, ".", 3)[2], " \t\r\n*>\x00") {
			t.Errorf("%q is taken for a subject", subject)
		}
		for _, name := range []string{"svc", service, service + "x"} {
			if ownStream(name, subject) && (name != service || !strings.HasPrefix(subject, "mcp.evt."+name+".")) {
				t.Errorf("%s keeps frames at %q", name, subject)
			}
		}
	})
}

// FuzzFollow gives arbitrary frames to a follower, stored and live. It takes
// none twice, goes never back, and does not panic.
func FuzzFollow(f *testing.F) {
	progress := encode(&busv1.Frame{Seq: 1, Body: &busv1.Frame_Progress{Progress: &busv1.Progress{}}})
	result := encode(&busv1.Frame{Seq: 2, Body: &busv1.Frame_Result{Result: &busv1.Result{Json: []byte(`{}`)}}})
	asks := encode(&busv1.Frame{Seq: 1, Body: &busv1.Frame_InputRequired{InputRequired: &busv1.InputRequired{}}})
	sent := encode(&busv1.Frame{Seq: 2, Body: &busv1.Frame_Sent{Sent: &busv1.Sent{Response: true}}})
	far := encode(&busv1.Frame{Seq: 1<<32 - 1, Body: &busv1.Frame_Chunk{Chunk: &busv1.Chunk{Data: []byte("x")}}})
	f.Add(progress, result, []byte(nil), uint8(0), uint8(1), uint32(0), uint32(0))
	f.Add(asks, sent, progress, uint8(0b010), uint8(2), uint32(1), uint32(1))
	f.Add(far, far, encode(&busv1.Frame{Seq: 0, Body: &busv1.Frame_Sent{}}), uint8(0b111), uint8(3), uint32(1), uint32(1<<32-1))
	f.Add([]byte("text"), []byte{}, []byte{0xff}, uint8(0), uint8(0), uint32(1<<32-1), uint32(0))
	f.Fuzz(func(t *testing.T, a, b, c []byte, stored, rounds uint8, round, seq uint32) {
		after := Position{round, seq}
		fo := &follower{stream: &Stream{Name: "s", Home: "e"}, after: after}
		var last Position
		fo.onFrame = func(frame *busv1.Frame) {
			if at := fo.stream.Last(); !after.Before(at) {
				t.Errorf("%v is told, which is not after %v", at, after)
			}
		}
		for i, data := range [][]byte{a, b, c, a, b, c} {
			subject := streamSubject("svc", "e", "s", uint32(rounds>>(i%3)&3), "call")
			if rounds&0x80 != 0 {
				subject = liveSubject(subject)
			}
			frame, gap, err := fo.take(&nats.Msg{Subject: subject, Data: data}, stored>>i&1 != 0)
			if frame != nil && (err != nil || gap) || gap && err != nil {
				t.Fatalf("%v, gap %v, %v", frame, gap, err)
			}
			if now := fo.stream.Last(); now.Before(last) {
				t.Fatalf("went from %v to %v", last, now)
			} else {
				last = now
			}
			if frame != nil || err != nil {
				return
			}
		}
	})
}

// FuzzClientMessage gives arbitrary bytes to a mailbox, and to who
// posted. Neither may panic; nothing but a message for the mailbox is taken.
func FuzzClientMessage(f *testing.F) {
	f.Add(encode(&busv1.ClientMessage{Token: "t", Body: []byte(`{}`)}))
	f.Add(encode(&busv1.ClientMessage{Token: "t", CredentialsDigest: []byte("x")}))
	f.Add(encode(&busv1.ClientMessageTaken{Reason: "forbidden"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := taken(&nats.Msg{Data: data}); err != nil && fault.From(err).Message == "" {
			t.Error("an error without words")
		}
		m := &busv1.ClientMessage{}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		b := &Mailbox{C: make(chan struct{}, 1)}
		c := &Caller{mailboxes: map[string]*Mailbox{"t": b}}
		reason := c.queue(m)
		if took := len(b.Take()) > 0; took != (m.Token == "t" && len(m.CredentialsDigest) == 0) || took != (reason == "") {
			t.Errorf("took %v, said %q: %q", took, reason, data)
		}
	})
}
