package bus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// While the caller decides about a permit, a drain waits and heartbeats arrive.
func TestH6PermitTakesTime(t *testing.T) {
	t.Parallel()
	// An instance asks for three seconds; a busy machine may exceed that.
	var err error
	for range 3 {
		if err = permitsSlowly(t); err == nil {
			return
		}
	}
	t.Error(err)
}

func permitsSlowly(t *testing.T) error {
	t.Helper()
	url := bustest.Server(t)
	var runs atomic.Int32
	s := handle(t, url, counted(&runs))
	drained := make(chan error, 1)
	_, err := newCaller(t, url).CallWith(t.Context(), "svc", effect("x"), bus.Options{Permit: func(context.Context, string) error {
		go func() { drained <- s.Drain(t.Context()) }()
		time.Sleep(2 * flow.MaxSilence) // a slow write; longer than a silent instance is waited for
		return nil
	}})
	if err == nil && runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
	if err := await(t, "the drain ends", drained); err != nil {
		t.Error(err)
	}
	return err
}

// A call with a stream whose edge dies before it permits the call does not run, and followers of
// the stream are told. A call that its edge leaves to followers runs.
func TestH6StreamsWithoutTheirEdge(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (url string, runs *atomic.Int32, busy, release chan struct{}) {
		url, runs, busy, release = bustest.Server(t), new(atomic.Int32), make(chan struct{}, 2), make(chan struct{})
		serve(t, url, bus.ServerConfig{Service: "svc", Concurrency: 1, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
			runs.Add(1)
			busy <- struct{}{}
			<-release
			return &busv1.Result{Json: []byte(`{}`)}, nil
		}})
		go func() { _, _ = keepingCaller(t, url).Call(t.Context(), "svc", toolCall(`{}`), nil) }()
		await(t, "the slot is taken", busy)
		return url, runs, busy, release
	}
	t.Run("dead", func(t *testing.T) {
		t.Parallel()
		url, runs, _, release := start(t)
		conn := bustest.Connect(t, url)
		one, err := edges.NewCaller(conn)
		if err != nil {
			t.Fatal(err)
		}
		s := one.NewStream()
		alive, ended := make(chan struct{}, 100), make(chan error, 1)
		go func() {
			_, err := callOn(one, t.Context(), s, "svc", effect("x"), func(*busv1.Frame) { alive <- struct{}{} })
			ended <- err
		}()
		await(t, "the call waits for a slot", alive)
		conn.Close()
		_ = await(t, "the edge is dead", ended)
		close(release)
		got := follow(within(t, bustest.Patience), keepingCaller(t, url), s, edges.Position{}, nobody)
		fails(t, got.err, fault.Unavailable, fault.No)
		if n := runs.Load(); n != 1 {
			t.Errorf("%d calls ran, want the one before", n)
		}
	})
	t.Run("left", func(t *testing.T) {
		t.Parallel()
		url, runs, busy, release := start(t)
		one := keepingCaller(t, url)
		s := one.NewStream()
		alive, ended := make(chan struct{}, 100), make(chan error, 1)
		ctx, leave := context.WithCancelCause(t.Context())
		go func() {
			_, err := callOn(one, ctx, s, "svc", effect("x"), func(*busv1.Frame) { alive <- struct{}{} })
			ended <- err
		}()
		await(t, "the call waits for a slot", alive)
		leave(bus.ErrLeft)
		fails(t, await(t, "the edge leaves", ended), fault.Cancelled, fault.Unknown)
		close(release)
		await(t, "the call runs", busy)
		got := follow(within(t, bustest.Patience), keepingCaller(t, url), s, edges.Position{}, nobody)
		if got.err != nil || got.frame.GetResult() == nil || runs.Load() != 2 {
			t.Errorf("%v, %v after %d runs", got.frame, got.err, runs.Load())
		}
	})
}
