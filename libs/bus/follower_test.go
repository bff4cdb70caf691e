package bus_test

import (
	"context"
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
		// An edge that is there and says nothing does not keep it forever.
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

// What another edge adds to a stream is nothing to the caller that waits for
// its service.
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

// A follower that takes its time misses nothing, however much comes meanwhile.
func TestFollowSlowly(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const n = 3000 // more than wait for a caller
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
