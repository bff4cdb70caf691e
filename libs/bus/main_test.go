package bus_test

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(stoppableCaller); url != "" {
		callAndPrint(url)
		return
	}
	if url := os.Getenv(stoppableService); url != "" {
		serveUntilKilled(url)
		return
	}
	// Tests mostly wait, so more of them run concurrently than there are processors.
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "6")
	}
	leaktest.Main(m)
}

// serve puts a handler on the bus through a connection of its own and drains
// it when the test ends.
func serve(t *testing.T, url string, cfg bus.ServerConfig) (*bus.Server, *bus.Conn) {
	t.Helper()
	conn := bustest.Join(t, url)
	s, err := bus.Serve(t.Context(), conn, cfg)
	if err != nil {
		t.Fatalf("serve %s: %v", cfg.Service, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_ = s.Drain(ctx) // tests of draining check its answer themselves
	})
	return s, conn
}

// handle serves f as service "svc" with default concurrency.
func handle(t *testing.T, url string, f bus.Handler) *bus.Server {
	t.Helper()
	s, _ := serve(t, url, bus.ServerConfig{Service: "svc", Handler: f})
	return s
}

func newCaller(t *testing.T, url string) *edges.Caller {
	t.Helper()
	return callerOn(t, bustest.Join(t, url))
}

// keepingCaller is a caller on a bus that has its buckets and streams, which keep
// the answers that clients may come back for.
func keepingCaller(t *testing.T, url string) *edges.Caller {
	t.Helper()
	return callerOn(t, bustest.Connect(t, url))
}

func callerOn(t *testing.T, conn *bus.Conn) *edges.Caller {
	t.Helper()
	c, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatalf("caller: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// callOn is Call for a client that may come back for the answer.
func callOn(c *edges.Caller, ctx context.Context, s *edges.Stream, service string, req *busv1.Request, onFrame func(*busv1.Frame)) (*busv1.Frame, error) {
	return c.CallOn(ctx, s, service, req, bus.Options{OnFrame: onFrame})
}

// raw joins the bus as anybody could, without this package.
func raw(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatalf("raw connection: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// peer answers the calls of service "svc" frame by frame, as a service that is
// not ours might.
func peer(t *testing.T, url string, answer func(nc *nats.Conn, msg *nats.Msg)) {
	t.Helper()
	nc := raw(t, url)
	// Messages that arrive after the test are ignored: t must not be used then.
	var mu sync.Mutex
	over := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	})
	_, err := nc.QueueSubscribe("mcp.call.svc.>", "svc", func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			answer(nc, msg)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sendFrames(t *testing.T, nc *nats.Conn, subject string, frames ...*busv1.Frame) {
	t.Helper()
	for _, f := range frames {
		data, err := proto.Marshal(f)
		if err == nil {
			err = nc.Publish(subject, data)
		}
		if err != nil {
			t.Errorf("send frame: %v", err)
		}
	}
}

func resultFrame(seq uint32, json string) *busv1.Frame {
	return &busv1.Frame{Seq: seq, Body: &busv1.Frame_Result{Result: &busv1.Result{Json: []byte(json)}}}
}

func progressFrame(seq uint32) *busv1.Frame {
	return &busv1.Frame{Seq: seq, Body: &busv1.Frame_Progress{Progress: &busv1.Progress{Progress: float64(seq)}}}
}

func toolCall(arguments string) *busv1.Request {
	return &busv1.Request{Method: "tools/call", Name: "echo", Arguments: []byte(arguments)}
}

// within is a context of the test that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func echo(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
	return &busv1.Result{Json: req.Arguments}, nil
}

// fails requires a fault of that kind.
func fails(t *testing.T, err error, reason fault.Reason, executed fault.Executed) *fault.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", reason)
	}
	f := fault.From(err)
	if f.Reason != reason || f.Executed != executed {
		t.Fatalf("got %s, executed %s (%v); want %s, %s", f.Reason, f.Executed, err, reason, executed)
	}
	return f
}

// answered returns the next frame that is not a heartbeat. A heartbeat comes first if the machine
// takes longer than flow.FirstAlive for an answer.
func answered(t *testing.T, frames <-chan *nats.Msg) *busv1.Frame {
	t.Helper()
	for {
		f := &busv1.Frame{}
		if err := proto.Unmarshal(await(t, "an answer", frames).Data, f); err != nil {
			t.Fatal(err)
		}
		if f.GetAlive() == nil {
			return f
		}
	}
}

// unspoilt repeats try until a busy machine does not disturb it: an answer that takes longer than
// flow.FirstAlive has a heartbeat among its numbered frames. try reports whether it succeeded.
func unspoilt(t *testing.T, try func() bool) {
	t.Helper()
	for range 20 {
		if try() {
			return
		}
	}
	t.Fatal("a sign of life came first in each of 20 rounds")
}

// await receives from c, or fails the test after bustest.Patience.
func await[V any](t *testing.T, what string, c <-chan V) V {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}

// recorder collects what callbacks are given.
type recorder[V any] struct {
	mu   sync.Mutex
	seen []V
}

func (r *recorder[V]) add(v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, v)
}

func (r *recorder[V]) all() []V {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]V(nil), r.seen...)
}
