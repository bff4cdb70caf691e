package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// same is a stream as another edge knows it: by its names only.
func same(s *edges.Stream) *edges.Stream { return &edges.Stream{Name: s.Name, Home: s.Home} }

func nobody() bool   { return false }
func somebody() bool { return true }

// followed is the result of following a stream.
type followed struct {
	stream *edges.Stream
	heard  []string // "<round>.<seq> <kind>"
	frame  *busv1.Frame
	err    error
}

func follow(ctx context.Context, c *edges.Caller, s *edges.Stream, after edges.Position, served func() bool) followed {
	f := followed{stream: same(s)}
	f.frame, f.err = c.Follow(ctx, f.stream, after, func(frame *busv1.Frame) {
		f.heard = append(f.heard, fmt.Sprintf("%d.%d %s", f.stream.Last().Round, frame.Seq, kindOf(frame)))
	}, served)
	return f
}

// each returns every position of an answer; rounds are the numbers of frames in its rounds.
func each(rounds ...uint32) (all []edges.Position) {
	for r, n := range rounds {
		for seq := range n + 1 {
			all = append(all, edges.Position{Round: uint32(r + 1), Seq: seq})
		}
	}
	return append(all, edges.Position{})
}

// TestFollow: a client that comes back receives exactly the rest, from every position, both after
// the end of the call and while it runs.
func TestFollow(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	large := object(640 << 10) // 640 KiB, 5 chunks and the end
	half := make(chan struct{})
	handle(t, url, func(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		out.Log(&busv1.Log{Level: 1})
		if req.InputResponses == nil {
			return &busv1.InputRequired{InputRequests: []byte(`{}`), RequestState: []byte("state")}, nil
		}
		select {
		case <-half:
		case <-ctx.Done():
		}
		out.Progress(&busv1.Progress{Progress: 2})
		return &busv1.Result{Json: large, Meta: []byte(`{"a":1}`)}, nil
	})
	want := func(after edges.Position) string {
		var rest []string
		for _, f := range []struct {
			at   edges.Position
			kind string
		}{
			{edges.Position{Round: 1, Seq: 1}, "progress"}, {edges.Position{Round: 1, Seq: 2}, "log"}, {edges.Position{Round: 1, Seq: 4}, "sent"},
			{edges.Position{Round: 2, Seq: 1}, "progress"}, {edges.Position{Round: 2, Seq: 2}, "log"}, {edges.Position{Round: 2, Seq: 3}, "progress"},
		} {
			if after.Before(f.at) {
				rest = append(rest, fmt.Sprintf("%d.%d %s", f.at.Round, f.at.Seq, f.kind))
			}
		}
		return strings.Join(rest, ", ")
	}
	check := func(after edges.Position, got followed) {
		t.Helper()
		if got.err != nil {
			t.Errorf("after %v: %v", after, got.err)
			return
		}
		if heard := strings.Join(got.heard, ", "); heard != want(after) {
			t.Errorf("after %v came %s; want %s", after, heard, want(after))
		}
		r := got.frame.GetResult()
		if !bytes.Equal(r.GetJson(), large) || string(r.GetMeta()) != `{"a":1}` {
			t.Errorf("after %v a result of %d bytes; want %d", after, len(r.GetJson()), len(large))
		}
		if last := got.stream.Last(); last != (edges.Position{Round: 2, Seq: 8}) {
			t.Errorf("after %v it ended at %v", after, last)
		}
	}

	one, two := keepingCaller(t, url), keepingCaller(t, url)
	type late struct {
		after edges.Position
		followed
	}
	positions := each(4, 8)
	lives := make(chan late, len(positions))
	var s *edges.Stream
	var first chan followed
	unspoilt(t, func() bool {
		s, first = asked(t, one), make(chan followed, 1)
		if err := one.Keep(t.Context(), s, &busv1.Sent{Json: []byte(`{"question":1}`)}); err != nil {
			t.Fatal(err)
		}
		s.KeepAll = true
		began := make(chan *busv1.Frame, 1)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		go func(s *edges.Stream, first chan<- followed) {
			req := toolCall(`{}`)
			req.InputResponses = []byte(`{}`)
			f := followed{stream: s}
			f.frame, f.err = callOn(one, ctx, s, "svc", req, func(f *busv1.Frame) {
				select {
				case began <- f:
				default:
				}
			})
			first <- f
		}(s, first)
		if await(t, "the second round", began).GetAlive() == nil {
			return true
		}
		cancel()
		await(t, "the spoilt round ends", first)
		return false
	})
	following := make(chan struct{}, len(positions))
	for i, after := range positions {
		go func() {
			caller := []*edges.Caller{one, two}[i%2]
			following <- struct{}{}
			lives <- late{after, follow(within(t, bustest.Patience), caller, s, after, somebody)}
		}()
	}
	for range positions {
		<-following // nearly: a follower that comes later finds the rest kept
	}
	close(half)
	for range positions {
		l := await(t, "a follower ends", lives)
		check(l.after, l.followed)
	}
	if f := await(t, "the first caller's end", first); f.err != nil || !bytes.Equal(f.frame.GetResult().GetJson(), large) {
		t.Errorf("the first caller got %d bytes, %v", len(f.frame.GetResult().GetJson()), f.err)
	}
	for _, after := range positions {
		check(after, follow(within(t, bustest.Patience), two, s, after, nobody))
	}
}

// asked is a stream whose first call, of "svc", has ended with its first frame or with frames of
// its handler, and without a heartbeat.
func asked(t *testing.T, c *edges.Caller) (s *edges.Stream) {
	t.Helper()
	unspoilt(t, func() bool {
		s = c.NewStream()
		alive := false
		if _, err := callOn(c, t.Context(), s, "svc", toolCall(`{}`), func(f *busv1.Frame) { alive = alive || f.GetAlive() != nil && f.Seq == 1 }); err != nil {
			t.Fatal(err)
		}
		return !alive
	})
	return s
}

// A large result arrives complete, byte by byte.
func TestFollowLargeResult(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	large := object(3 << 20)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		return &busv1.Result{Json: large}, nil
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := one.NewStream()
	if _, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	got := follow(t.Context(), two, s, edges.Position{Round: 1, Seq: 1}, nobody)
	if got.err != nil || !bytes.Equal(got.frame.GetResult().GetJson(), large) || len(got.heard) > 0 {
		t.Errorf("%d bytes, %v after %v", len(got.frame.GetResult().GetJson()), got.err, got.heard)
	}
}

// A follower takes over a question that no edge is handling any more.
func TestFollowTakesOver(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
		if req.InputResponses == nil { // at once: kept by the caller
			return &busv1.InputRequired{InputRequests: []byte(`{"q":{}}`), RequestState: []byte(`"state"}`)}, nil
		}
		out.Progress(&busv1.Progress{Progress: 1})
		return &busv1.Result{Json: append(req.InputResponses, req.RequestState...)}, nil
	})
	one, two, three := keepingCaller(t, url), keepingCaller(t, url), keepingCaller(t, url)
	s := asked(t, one)
	if err := one.Keep(t.Context(), s, &busv1.Sent{Json: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	var there atomic.Bool
	there.Store(true)
	asked := make(chan struct{}, 8)
	done := make(chan followed, 1)
	go func() {
		done <- follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1}, func() bool {
			asked <- struct{}{}
			return there.Load()
		})
	}()
	await(t, "it is asked whether somebody has the question", asked)
	there.Store(false)
	got := await(t, "the question is left to the follower", done)
	if got.err != nil || string(got.frame.GetInputRequired().GetInputRequests()) != `{"q":{}}` || strings.Join(got.heard, ", ") != "1.2 sent" {
		t.Fatalf("%v, %v after %v", got.frame, got.err, got.heard)
	}
	release, err := two.Adopt(got.stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Keep(t.Context(), got.stream, &busv1.Sent{Json: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	got.stream.KeepAll = true
	req := toolCall(`{}`)
	req.InputResponses, req.RequestState = []byte(`{"answers":`), got.frame.GetInputRequired().RequestState
	frame, err := callOn(two, t.Context(), got.stream, "svc", req, func(*busv1.Frame) {})
	if err != nil || string(frame.GetResult().GetJson()) != `{"answers":"state"}` {
		t.Errorf("the call that goes on: %v, %v", frame, err)
	}
	release()
	again := follow(within(t, bustest.Patience), three, s, edges.Position{Round: 1}, nobody)
	heard := strings.ReplaceAll(strings.Join(again.heard, ", "), "2.1 alive, 2.2", "2.1") // of a busy machine
	if again.err != nil || heard != "1.2 sent, 1.3 sent, 2.1 progress" || string(again.frame.GetResult().GetJson()) != `{"answers":"state"}` {
		t.Errorf("%v, %v after %s", again.frame, again.err, heard)
	}
}

// If an edge answers and leaves while it is asked whether it is there, its answer counts.
func TestFollowHearsWhatCameWhileItAsked(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		return &busv1.InputRequired{InputRequests: []byte(`{}`)}, nil
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := one.NewStream()
	if _, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	answer := sync.OnceValue(func() error { return one.Keep(t.Context(), s, &busv1.Sent{Json: []byte(`{"a":1}`), Response: true}) })
	got := follow(within(t, bustest.Patience), two, s, edges.Position{}, func() bool {
		if err := answer(); err != nil {
			t.Error(err)
		}
		return false
	})
	if got.err != nil || string(got.frame.GetSent().GetJson()) != `{"a":1}` {
		t.Errorf("%v, %v", got.frame, got.err)
	}
}

// A response that an edge sent ends the stream for all followers.
func TestFollowEndsAtTheEdgesResponse(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		return &busv1.InputRequired{InputRequests: []byte(`{}`)}, nil
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := asked(t, one)
	done := make(chan followed, 1)
	go func() { done <- follow(within(t, bustest.Patience), two, s, edges.Position{}, somebody) }()
	for i, response := range []bool{false, true} {
		if err := one.Keep(t.Context(), s, &busv1.Sent{Json: []byte(fmt.Sprint(i)), Response: response}); err != nil {
			t.Fatal(err)
		}
	}
	got := await(t, "the follower ends", done)
	if got.err != nil || string(got.frame.GetSent().GetJson()) != "1" || strings.Join(got.heard, ", ") != "1.2 sent" {
		t.Errorf("%v, %v after %v", got.frame, got.err, got.heard)
	}
}

// A repeated call is one answer with two rounds.
func TestFollowRepeatedCall(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var calls atomic.Int32
	started := make(chan struct{}, 2)
	peer(t, url, func(nc *nats.Conn, msg *nats.Msg) {
		req := &busv1.Request{}
		if err := proto.Unmarshal(msg.Data, req); err != nil {
			t.Error(err)
		}
		if calls.Add(1) == 1 {
			// Then it dies. Its caller learns that from a frame with a wrong number. If the caller
			// had to wait for a silence, followers might give up before the next call begins.
			sendFrames(t, nc, req.Stream, progressFrame(1), progressFrame(2))
			await(t, "the first frame is heard", started)
			sendFrames(t, nc, msg.Reply, resultFrame(9, `{}`))
			return
		}
		sendFrames(t, nc, req.Stream, progressFrame(1), resultFrame(2, `{}`))
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := one.NewStream()
	done := make(chan followed, 1)
	_, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), func(f *busv1.Frame) {
		if f.Seq == 1 {
			go func() { done <- follow(within(t, bustest.Patience), two, s, edges.Position{}, somebody) }()
			started <- struct{}{}
		}
	})
	fails(t, err, fault.PeerLost, fault.Unknown)
	if _, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), func(*busv1.Frame) {}); err != nil {
		t.Fatal(err)
	}
	got := await(t, "the follower ends", done)
	for range 2 {
		if heard := strings.Join(got.heard, ", "); got.err != nil || got.frame.GetResult() == nil || heard != "1.1 progress, 1.2 progress, 2.1 progress" {
			t.Errorf("%v, %v after %s", got.frame, got.err, heard)
		}
		got = follow(within(t, bustest.Patience), two, s, edges.Position{}, nobody)
	}
}
