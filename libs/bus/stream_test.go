package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// kept is stream EVT with an administrator's access.
type kept struct {
	t  *testing.T
	js jetstream.JetStream
}

func keptOn(t *testing.T, url string) kept {
	t.Helper()
	js, err := jetstream.New(raw(t, url), jetstream.WithDefaultTimeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	return kept{t, js}
}

func (k kept) stream() jetstream.Stream {
	k.t.Helper()
	s, err := k.js.Stream(k.t.Context(), "EVT")
	if err != nil {
		k.t.Fatal(err)
	}
	return s
}

// frames returns all stored frames in order, after everything sent so far has arrived.
func (k kept) frames() []*busv1.Frame {
	k.t.Helper()
	ack, err := k.js.Publish(k.t.Context(), "mcp.evt.marker.updated", nil)
	if err != nil {
		k.t.Fatal(err)
	}
	s, all := k.stream(), []*busv1.Frame(nil)
	info, err := s.Info(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq < ack.Sequence; seq++ {
		msg, err := s.GetMsg(k.t.Context(), seq)
		if err != nil {
			k.t.Fatalf("message %d: %v", seq, err)
		}
		f := &busv1.Frame{}
		if err := proto.Unmarshal(msg.Data, f); err != nil {
			k.t.Fatalf("message %d on %s: %v", seq, msg.Subject, err)
		}
		if msg.Subject != "mcp.evt.marker.updated" {
			all = append(all, f)
		}
	}
	return all
}

// drop deletes the oldest messages, all but the last ones.
func (k kept) drop(left uint64) {
	k.t.Helper()
	if err := k.stream().Purge(k.t.Context(), jetstream.WithPurgeKeep(left)); err != nil {
		k.t.Fatal(err)
	}
}

// kindOf names a frame for messages of tests.
func kindOf(f *busv1.Frame) string {
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", f.Body), "*busv1.Frame_"))
}

func kinds(frames []*busv1.Frame) string {
	var all []string
	for _, f := range frames {
		all = append(all, fmt.Sprint(f.Seq, " ", kindOf(f)))
	}
	return strings.Join(all, ", ")
}

// An answer that ends at once uses no room of the stream, whatever it is.
func TestFastAnswerIsNotKept(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	large := object(3 << 20)
	handle(t, url, func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		switch req.Name {
		case "large":
			return &busv1.Result{Json: large}, nil
		case "task":
			return &busv1.Task{}, nil
		case "error":
			return nil, fault.New(fault.Conflict, "no")
		case "panic":
			panic("test")
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	caller, evt := keepingCaller(t, url), keptOn(t, url)
	slow := 0 // answers on a busy machine, which began with a heartbeat
	for _, name := range []string{"result", "large", "task", "error", "panic"} {
		s := caller.NewStream()
		frame, err := callOn(caller, t.Context(), s, "svc", &busv1.Request{Method: "tools/call", Name: name}, func(f *busv1.Frame) {
			if f.GetAlive() == nil {
				t.Errorf("%s: a frame before the end: %v", name, f)
			}
			if f.Seq == 1 { // later ones belong to a large answer, which takes longer
				slow++
			}
		})
		if bad := name == "error" || name == "panic"; bad != (err != nil) {
			t.Errorf("%s: %v, %v", name, frame, err)
		}
		if name == "large" && !bytes.Equal(frame.GetResult().GetJson(), large) {
			t.Errorf("%d bytes of %d", len(frame.GetResult().GetJson()), len(large))
		}
		if at := s.Last(); at.Round != 1 || at.Seq == 0 {
			t.Errorf("%s: at %v", name, at)
		}
	}
	if _, err := callOn(caller, t.Context(), caller.NewStream(), "nobody", toolCall(`{}`), nil); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if frames := evt.frames(); len(frames) > 0 && slow == 0 {
		t.Errorf("kept: %s", kinds(frames))
	}
}

// An answer that does not end at once is kept from its first frame on.
func TestSlowAnswerIsKept(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (url string, evt kept, release chan struct{}) {
		t.Parallel()
		url, release = bustest.Server(t), make(chan struct{})
		handle(t, url, func(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
			switch req.Name {
			case "progress":
				out.Progress(&busv1.Progress{Progress: 1})
				out.Log(&busv1.Log{Level: 1})
			case "silent":
				select {
				case <-release:
				case <-ctx.Done():
				}
			case "large":
				out.Progress(&busv1.Progress{Progress: 1})
				return &busv1.Result{Json: object(300 << 10)}, nil
			case "ask":
				return &busv1.InputRequired{InputRequests: []byte(`{}`)}, nil
			case "fault":
				out.Progress(&busv1.Progress{Progress: 1})
				return nil, fault.New(fault.Conflict, "no")
			}
			return &busv1.Result{Json: []byte(`{}`)}, nil
		})
		return url, keptOn(t, url), release
	}
	for _, c := range []struct{ name, want string }{
		{"progress", "1 progress, 2 log, 3 result"},
		{"large", "1 progress, 2 chunk, 3 chunk, 4 result"},
		{"fault", "1 progress, 2 error"},
		// The call continues after this, so the caller keeps it.
		{"ask", "1 inputrequired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, evt, _ := start(t)
			caller := keepingCaller(t, url)
			keeps(t, evt, c.want, func() (alive bool) {
				_, err := callOn(caller, t.Context(), caller.NewStream(), "svc", &busv1.Request{Method: "tools/call", Name: c.name}, func(f *busv1.Frame) {
					alive = alive || f.Seq == 1 && f.GetAlive() != nil
				})
				if (err != nil) != (c.name == "fault") {
					t.Fatal(err)
				}
				return alive
			})
		})
	}
	t.Run("signs of life beyond the first are not kept", func(t *testing.T) {
		url, evt, release := start(t)
		caller := keepingCaller(t, url)
		s := caller.NewStream()
		signs := make(chan *nats.Msg, 16)
		if _, err := raw(t, url).ChanSubscribe("mcp.live.>", signs); err != nil {
			t.Fatal(err)
		}
		first := 0
		done := make(chan error, 1)
		go func() {
			_, err := callOn(caller, t.Context(), s, "svc", &busv1.Request{Method: "tools/call", Name: "silent"}, func(f *busv1.Frame) {
				if f.GetAlive() != nil && f.Seq == 1 {
					first++
				}
			})
			done <- err
		}()
		for range 4 { // a caller that did not hear these would give up by the fourth
			await(t, "a sign of life", signs)
		}
		close(release)
		if err := await(t, "the call ends", done); err != nil || first != 1 {
			t.Errorf("%d first signs, %v", first, err)
		}
		if got := kinds(evt.frames()); got != "1 alive, 2 result" {
			t.Errorf("kept %s", got)
		}
	})
	t.Run("everything, once the client may come back", func(t *testing.T) {
		url, evt, _ := start(t)
		caller := keepingCaller(t, url)
		keeps(t, evt, "1 result", func() (alive bool) {
			s := caller.NewStream()
			s.KeepAll = true
			_, err := callOn(caller, t.Context(), s, "svc", toolCall(`{}`), func(*busv1.Frame) { alive = true })
			if err != nil {
				t.Fatal(err)
			}
			return alive
		})
	})
	t.Run("without a stream nothing", func(t *testing.T) {
		url, evt, _ := start(t)
		if _, err := keepingCaller(t, url).Call(t.Context(), "svc", &busv1.Request{Method: "tools/call", Name: "progress"}, nil); err != nil {
			t.Fatal(err)
		}
		if got := kinds(evt.frames()); got != "" {
			t.Errorf("kept %s", got)
		}
	})
}

// keeps makes a call, and checks which frames are kept. call reports whether the machine was so
// busy that a heartbeat came first, which is kept too.
func keeps(t *testing.T, evt kept, want string, call func() (alive bool)) {
	t.Helper()
	unspoilt(t, func() bool {
		if call() {
			evt.frames() // everything is stored
			evt.drop(0)
			return false
		}
		if got := kinds(evt.frames()); got != want {
			t.Errorf("kept %s; want %s", got, want)
		}
		return true
	})
}

// A service keeps frames only on its own subjects: otherwise a caller could make it write where the
// caller itself may not.
func TestServiceKeepsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	nc := raw(t, url)
	heard := make(chan *nats.Msg, 64)
	if _, err := nc.ChanSubscribe(">", heard); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		stream string
		obeyed bool
	}{
		{"mcp.evt.svc.e.s.1.c", true},
		{"mcp.evt.other.e.s.1.c", false}, {"mcp.evt.svcx.e.s.1.c", false}, {"mcp.evt.sv.e.s.1.c", false},
		{"mcp.evt.svc.updated", false}, {"mcp.evt.svc.e.s.x.c", false}, {"mcp.evt.svc.e.s.-1.c", false}, {"mcp.evt.svc.e.s.0.c", false}, {"mcp.evt.svc.e.s.4294967296.c", false},
		{"mcp.evt.svc.e.s.1.c.more", false}, {"mcp.evt.svc..s.1.c", false}, {"mcp.evt.svc.*.s.1.c", false}, {"mcp.evt.svc.e.s.1.>", false},
		{"mcp.evt.svc.e.s.1.c reply", false}, {"mcp.evt.svc.e.s.1.c 0\r\n\r\nPING\r\n", false},
		{"mcp.ctl.svc.e.s.1.c", false}, {"mcp.call.svc.e.s.1.c", false}, {"mcp.live.svc.e.s.1.c", false}, {"xmcp.evt.svc.e.s.1.c", false},
		{"$KV.registry.svc.x", false}, {"$KV.svc.svc.e.s.1.c", false}, {" ", false},
	} {
		for _, all := range []bool{false, true} {
			reply := fmt.Sprintf("mcp.reply.svc.e.%d-%v", i, all)
			data, err := proto.Marshal(&busv1.Request{
				Id: reply, Method: "tools/call", Stream: c.stream, StreamAll: all,
				DeadlineUnixNano: uint64(time.Now().Add(time.Minute).UnixNano()),
			})
			if err == nil {
				err = nc.PublishRequest("mcp.call.svc.tools.call", reply, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := reply
			if c.obeyed {
				want = c.stream
			}
			for seq, last := uint32(1), false; !last; {
				msg := await(t, fmt.Sprintf("frame %d of the answer that should be kept at %q", seq, c.stream), heard)
				frame := &busv1.Frame{}
				switch {
				case msg.Subject == "mcp.call.svc.tools.call", strings.HasPrefix(msg.Subject, "$JS."), strings.HasPrefix(msg.Subject, "_INBOX."), strings.HasPrefix(msg.Subject, "$SRV."):
					continue
				case c.obeyed && msg.Subject == "mcp.live."+strings.TrimPrefix(want, "mcp.evt."):
					continue // a heartbeat, on a busy machine
				case msg.Subject != want || proto.Unmarshal(msg.Data, frame) != nil || frame.Seq != seq:
					t.Fatalf("stream %q: heard %q on %s, want frame %d on %s", c.stream, msg.Data, msg.Subject, seq, want)
				}
				seq, last = seq+1, frame.GetResult() != nil
			}
		}
	}
}
