package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A follower notices by itself that the instance is gone.
func TestFollowerOfLostInstance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		served func() bool
		most   time.Duration
	}{
		"and the edge": {nobody, 1500 * time.Millisecond},
		// An edge that is there but silent does not keep the follower forever.
		"the edge is hung": {somebody, 4500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			_, conn := serve(t, url, bus.ServerConfig{Service: "svc", Handler: func(ctx context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
				out.Progress(&busv1.Progress{Progress: 1})
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			one, two := keepingCaller(t, url), keepingCaller(t, url)
			s := one.NewStream()
			ctx, leave := context.WithCancelCause(t.Context())
			started, left := make(chan struct{}, 1), make(chan error, 1)
			go func() {
				_, err := callOn(one, ctx, s, "svc", toolCall(`{}`), func(f *busv1.Frame) {
					if f.Seq == 1 {
						started <- struct{}{}
					}
				})
				left <- err
			}()
			await(t, "the call runs", started)
			leave(bus.ErrLeft)
			fails(t, await(t, "its caller leaves it", left), fault.Cancelled, fault.Unknown)
			done := make(chan followed, 1)
			signs := make(chan *nats.Msg, 64)
			if _, err := raw(t, url).ChanSubscribe("mcp.live.>", signs); err != nil {
				t.Fatal(err)
			}
			go func() {
				done <- follow(within(t, bustest.Patience), two, s, edges.Position{Round: 1, Seq: 1}, c.served)
			}()
			for range 5 { // for longer than a silence may last
				await(t, "a sign of life", signs)
			}
			select {
			case got := <-done:
				t.Fatalf("ended although the call goes on: %v, %v", got.frame, got.err)
			default:
			}
			began := time.Now()
			conn.Close()
			got := await(t, "the follower ends", done)
			fails(t, got.err, fault.PeerLost, fault.Unknown)
			if took := time.Since(began); took > c.most+bustest.Promptly {
				t.Errorf("said after %v", took)
			}
		})
	}
}

// A caller that waits for its service ignores frames that another edge adds to the stream.
func TestCallOnIgnoresOtherEdges(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	release := make(chan struct{})
	handle(t, url, func(ctx context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := one.NewStream()
	started, done := make(chan struct{}, 1), make(chan followed, 1)
	go func() {
		f := followed{stream: s}
		f.frame, f.err = callOn(one, t.Context(), s, "svc", toolCall(`{}`), func(f *busv1.Frame) {
			if f.Seq == 1 {
				started <- struct{}{}
			}
		})
		done <- f
	}()
	await(t, "the call runs", started)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	bustest.Eventually(t, "the stream is stored, and another edge adds to it", func() bool {
		other := follow(ctx, two, s, edges.Position{}, somebody)
		return two.Keep(t.Context(), other.stream, &busv1.Sent{Json: []byte(`{}`), Response: true}) == nil
	})
	close(release)
	if got := await(t, "the call ends", done); got.err != nil || got.frame.GetResult() == nil {
		t.Errorf("%v, %v", got.frame, got.err)
	}
}

// A slow follower misses nothing, however many frames arrive meanwhile.
func TestFollowSlowly(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const n = 3000 // more than are queued for a caller
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		for i := range n {
			out.Progress(&busv1.Progress{Progress: float64(i + 1)})
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	one, two := keepingCaller(t, url), keepingCaller(t, url)
	s := one.NewStream()
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), func(f *busv1.Frame) {
			if f.Seq == 1 {
				started <- struct{}{}
			}
		})
		ended <- err
	}()
	await(t, "the call runs", started)
	heard := 0
	frame, err := two.Follow(within(t, bustest.Patience), same(s), edges.Position{}, func(f *busv1.Frame) {
		if f.GetAlive() != nil {
			return // of a busy machine
		}
		if heard++; heard == 1 {
			if err := await(t, "the call ends", ended); err != nil {
				t.Error(err)
			}
		}
		if p := f.GetProgress().GetProgress(); p != float64(heard) {
			t.Errorf("progress %v, want %d", p, heard)
		}
	}, nobody)
	if err != nil || frame.GetResult() == nil || heard != n {
		t.Errorf("%v, %v after %d", frame, err, heard)
	}
}

// An attempt that its instance did not begin is not the end of the call for a follower: the edge
// that serves the stream makes the call again, or sends a response. Without that edge it is unknown
// whether it did.
func TestFollowerWaitsForAnotherAttempt(t *testing.T) {
	t.Parallel()
	for _, reason := range []fault.Reason{fault.Overloaded, fault.DeadlineExceeded, fault.Cancelled} {
		for name, kept := range map[string]bool{"the next one is kept": true, "nothing is kept of the next one": false} {
			t.Run(string(reason)+", "+name, func(t *testing.T) {
				t.Parallel()
				url := bustest.Server(t)
				unbegun := errorFrame(&busv1.Error{Reason: string(reason), Executed: busv1.Executed_EXECUTED_NO, Message: "not begun"})
				unbegun.Seq = 2
				alive := &busv1.Frame{Seq: 1, Instance: "i", Body: &busv1.Frame_Alive{Alive: &busv1.Alive{}}}
				calls := 0
				peer(t, url, func(nc *nats.Conn, msg *nats.Msg) {
					req := &busv1.Request{}
					if err := proto.Unmarshal(msg.Data, req); err != nil {
						t.Error(err)
					}
					calls++
					switch {
					case calls == 1:
						sendFrames(t, nc, req.Stream, alive, unbegun)
					case kept:
						sendFrames(t, nc, req.Stream, progressFrame(1), resultFrame(2, `{}`))
					default:
						sendFrames(t, nc, msg.Reply, resultFrame(1, `{}`))
					}
				})
				one, two := keepingCaller(t, url), keepingCaller(t, url)
				s := one.NewStream()
				if _, err := one.CallOn(t.Context(), s, "svc", toolCall(`{}`), bus.Options{Harmless: true}); err != nil {
					t.Fatal(err)
				}
				got := follow(within(t, bustest.Patience), two, s, edges.Position{}, nobody)
				if !kept {
					fails(t, got.err, fault.PeerLost, fault.Unknown)
					return
				}
				if heard := strings.Join(got.heard, ", "); got.err != nil || got.frame.GetResult() == nil || heard != "1.1 alive, 2.1 progress" {
					t.Errorf("%v, %v after %s", got.frame, got.err, heard)
				}
			})
		}
	}
}
