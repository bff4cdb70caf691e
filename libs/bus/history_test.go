package bus_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// If frames that a client has not received are no longer kept, it is told that they are lost;
// frames that it has may be deleted. M12: also if nothing is left.
func TestFollowPurged(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		for i := range 5 {
			out.Progress(&busv1.Progress{Progress: float64(i + 1)})
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	one, two, evt := keepingCaller(t, url), keepingCaller(t, url), keptOn(t, url)
	s := asked(t, one)
	var own []*busv1.Frame
	for _, f := range evt.frames() {
		if own = append(own, f); f.Seq == 1 { // after the frames of a discarded round
			own = own[len(own)-1:]
		}
	}
	if got := len(own); got != 6 {
		t.Fatalf("%d frames", got)
	}
	for gone := uint32(1); gone <= 5; gone++ {
		evt.drop(uint64(6-gone) + 1) // and the marker
		for seq := range uint32(7) {
			got := follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: seq}, nobody)
			if seq < gone {
				fails(t, got.err, fault.HistoryLost, fault.Unknown)
			} else if got.err != nil || len(got.heard) != max(0, 5-int(seq)) {
				t.Errorf("%d are gone, the client has %d: %v, %v", gone, seq, got.heard, got.err)
			}
		}
	}
	evt.drop(0)
	began := time.Now()
	got := follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: 1}, nobody)
	fails(t, got.err, fault.HistoryLost, fault.Unknown)
	if took := time.Since(began); took > bustest.Promptly {
		t.Errorf("said after %v", took)
	}
}

// A client that has all deleted frames can follow a running call further; for other clients the
// call is lost.
func TestFollowPurgedWhileItRuns(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	release := make(chan struct{})
	handle(t, url, func(ctx context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		out.Progress(&busv1.Progress{Progress: 2})
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	one, two, evt := keepingCaller(t, url), keepingCaller(t, url), keptOn(t, url)
	var s *edges.Stream
	var ended chan error
	unspoilt(t, func() bool {
		s, ended = one.NewStream(), make(chan error, 1)
		started := make(chan bool, 1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func(s *edges.Stream, ended chan<- error) {
			alive := false
			_, err := callOn(one, ctx, s, "svc", toolCall(`{}`), func(f *busv1.Frame) {
				alive = alive || f.GetAlive() != nil
				if f.Seq == 2 {
					started <- !alive
				}
			})
			ended <- err
		}(s, ended)
		if await(t, "the call runs", started) {
			return true
		}
		cancel()
		await(t, "the spoilt call ends", ended)
		return false
	})
	evt.frames()
	evt.drop(0)
	has := make(chan followed, 1)
	go func() { has <- follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: 2}, somebody) }()
	got := follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1}, somebody)
	fails(t, got.err, fault.HistoryLost, fault.Unknown)
	close(release)
	if got := await(t, "the other ends", has); got.err != nil || got.frame.GetResult() == nil {
		t.Errorf("%v, %v", got.frame, got.err)
	}
	got = follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: 1}, nobody)
	fails(t, got.err, fault.HistoryLost, fault.Unknown)
	if err := await(t, "the first caller", ended); err != nil {
		t.Error(err)
	}
}

// Frames of a service that does not number them well.
func TestFollowGap(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	nc := raw(t, url)
	two := keepingCaller(t, url)
	for name, c := range map[string]struct {
		frames []*busv1.Frame
		after  uint32
		want   fault.Reason // empty: a result
	}{
		"what is missing was not had":      {[]*busv1.Frame{progressFrame(1), progressFrame(2), resultFrame(4, `{}`)}, 0, fault.HistoryLost},
		"what is missing comes next":       {[]*busv1.Frame{progressFrame(1), progressFrame(2), resultFrame(4, `{}`)}, 2, fault.HistoryLost},
		"what is missing was had":          {[]*busv1.Frame{progressFrame(1), progressFrame(2), resultFrame(4, `{}`)}, 3, ""},
		"twice":                            {[]*busv1.Frame{progressFrame(1), progressFrame(1), resultFrame(2, `{}`), resultFrame(2, `{"b":1}`)}, 0, ""},
		"no frames among them":             {[]*busv1.Frame{{Seq: 1}, progressFrame(1), {}, resultFrame(2, `{}`)}, 0, ""},
		"nothing but the end, far too far": {[]*busv1.Frame{resultFrame(1<<32-1, `{}`)}, 1, fault.HistoryLost},
		"number 0":                         {[]*busv1.Frame{resultFrame(0, `{}`)}, 0, fault.PeerLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := keepingCaller(t, url).NewStream()
			sendFrames(t, nc, "mcp.evt.svc."+s.Home+"."+s.Name+".1.call", c.frames...)
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			got := follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: c.after}, nobody)
			switch {
			case c.want != "":
				fails(t, got.err, c.want, fault.Unknown)
			case got.err != nil || string(got.frame.GetResult().GetJson()) != `{}`:
				t.Errorf("%v, %v", got.frame, got.err)
			}
		})
	}
}
