package edges

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bustest/beside"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// FuzzFollow gives arbitrary frames to a follower, stored and live. It never takes a frame twice,
// never goes back, and does not panic.
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
	server, err := beside.Start(beside.Config{DataDir: f.TempDir()}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = server.Stop() })
	conn, err := bus.Connect(f.Context(), bus.Config{URL: server.URL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conn.Close)
	caller, err := NewCaller(conn)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, stored, rounds uint8, round, seq uint32) {
		after := Position{round, seq}
		fo := &follower{caller: caller, stream: &Stream{Name: "s", Home: "e"}, after: after}
		var last Position
		fo.onFrame = func(frame *busv1.Frame) {
			if at := fo.stream.Last(); !after.Before(at) {
				t.Errorf("%v is told, which is not after %v", at, after)
			}
		}
		for i, data := range [][]byte{a, b, c, a, b, c} {
			at := subject.Frames("svc", "e", "s", uint32(rounds>>(i%3)&3), "call")
			if rounds&0x80 != 0 {
				at = subject.Live(at)
			}
			frame, gap, err := fo.take(&nats.Msg{Subject: at, Data: data}, stored>>i&1 != 0)
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

// FuzzClientMessage gives arbitrary bytes to a mailbox and to its sender. Neither may panic; only a
// message for the mailbox is accepted.
func FuzzClientMessage(f *testing.F) {
	f.Add(encode(&edgev1.ClientMessage{Token: "t", Body: []byte(`{}`)}))
	f.Add(encode(&edgev1.ClientMessage{Token: "t", OwnerDigest: []byte("x")}))
	f.Add(encode(&edgev1.ClientMessageTaken{Reason: "forbidden"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := taken(&nats.Msg{Data: data}); err != nil && fault.From(err).Message == "" {
			t.Error("an error without words")
		}
		m := &edgev1.ClientMessage{}
		if proto.Unmarshal(data, m) != nil {
			return
		}
		b := &Mailbox{C: make(chan struct{}, 1)}
		c := &Caller{mailboxes: map[string]*Mailbox{"t": b}}
		reason := c.queue(m)
		if took := len(b.Take()) > 0; took != (m.Token == "t" && len(m.OwnerDigest) == 0) || took != (reason == "") {
			t.Errorf("took %v, said %q: %q", took, reason, data)
		}
	})
}
