package bus_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// knowing returns a caller on a connection with a registry that knows n instances.
func knowing(t *testing.T, url string, n int) *bus.Caller {
	t.Helper()
	conn := bustest.Connect(t, url)
	registry, err := registry.Watch(t.Context(), conn, func([]registry.Service) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	bustest.Eventually(t, "the instances are known", func() bool {
		all := registry.Services()
		return len(all) == 1 && len(all[0].Instances) == n
	})
	caller, err := bus.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	return caller
}

// Calls go to the instance with the fewest calls, so that none waits for a slot while another
// instance has free ones.
func TestCallsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	const instances, slots = 4, 16
	url := bustest.Server(t)
	var running [instances]atomic.Int64
	started, release := make(chan struct{}, instances*slots), make(chan struct{})
	for i := range instances {
		conn := bustest.Connect(t, url)
		server, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Concurrency: slots, Handler: func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
			running[i].Add(1)
			started <- struct{}{}
			<-release
			return &busv1.Result{Json: []byte(`{}`)}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Drain(context.Background()) })
		announce(t, conn, "svc", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
	}
	caller := knowing(t, url, instances)
	done := make(chan error, instances*slots)
	for range instances * slots {
		go func() {
			_, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil)
			done <- err
		}()
	}
	for range instances * slots {
		await(t, "a call runs", started)
	}
	for i := range running {
		if n := running[i].Load(); n != slots {
			t.Errorf("instance %d has %d calls", i, n)
		}
	}
	close(release)
	for range instances * slots {
		if err := await(t, "a call ends", done); err != nil {
			t.Error(err)
		}
	}
}

// An announced instance that does not receive its requests costs no call its answer: it is dead, or
// of a release without such subjects.
func TestInstanceThatIsNotThere(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	server, _ := serve(t, url, bus.ServerConfig{Service: "svc", Handler: echo})
	conn := bustest.Connect(t, url)
	announce(t, conn, "svc", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
	announce(t, conn, "svc", "dead", "1.0.0", &busv1.Catalogue{Service: "svc"})
	announce(t, conn, "svc", "dead-too", "1.0.0", &busv1.Catalogue{Service: "svc"})
	caller := knowing(t, url, 3)
	for i := range 50 {
		frame, err := caller.Call(t.Context(), "svc", toolCall(`{"a":1}`), nil)
		if err != nil || string(frame.GetResult().GetJson()) != `{"a":1}` {
			t.Fatalf("call %d: %v %v", i, frame, err)
		}
	}
}

// An instance that hangs for longer than it is remembered is still in the queue group of its
// service, and receives no calls through it while another instance is known.
func TestH2AForgottenInstanceIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	server, _ := serve(t, url, bus.ServerConfig{Service: "svc", Handler: echo})
	announce(t, bustest.Connect(t, url), "svc", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
	peer(t, url, func(_ *nats.Conn, msg *nats.Msg) { t.Errorf("the forgotten one has a call: %s", msg.Subject) })
	caller := knowing(t, url, 1)
	for range 40 {
		if _, err := caller.Call(t.Context(), "svc", toolCall(`{}`), nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Calls at a hanging instance move to another one before it is clear that it hangs. They succeed,
// and a call with an effect runs once, even if the instance continues.
func TestH2CallsOfAHungInstanceGoElsewhere(t *testing.T) {
	t.Parallel()
	// A busy machine may be late with all calls of a round.
	var took time.Duration
	for range 5 {
		if took = elsewhere(t); took <= flow.MaxSilence || t.Failed() {
			return
		}
	}
	t.Errorf("calls went from the hung instance to the other one after %v", took)
}

// elsewhere makes a round, and returns how soon a call reached the other instance.
func elsewhere(t *testing.T) time.Duration {
	t.Helper()
	url := bustest.Server(t)
	var runs atomic.Int32
	var mu sync.Mutex
	came := map[string]time.Time{}
	var took []time.Duration
	server, _ := serve(t, url, bus.ServerConfig{Service: "svc", Handler: func(_ context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		if req.AskFirst {
			runs.Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		if first, hung := came[bus.FirstID(req.Id)]; hung {
			took = append(took, time.Since(first))
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	}})
	conn := bustest.Connect(t, url)
	announce(t, conn, "svc", server.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
	var held []*busv1.Request
	instanceOf(t, url, "hung", func(_ *nats.Conn, msg *nats.Msg) {
		req := &busv1.Request{}
		if err := proto.Unmarshal(msg.Data, req); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		came[bus.FirstID(req.Id)] = time.Now()
		held = append(held, req)
	})
	caller := knowing(t, url, 2)
	const n = 12
	var calls sync.WaitGroup
	var permits atomic.Int32
	for i := range n {
		calls.Go(func() {
			req, o := effect("x"), bus.Options{Permit: func(context.Context, string) error { permits.Add(1); return nil }}
			if i%2 == 0 {
				req, o = toolCall(`{}`), bus.Options{Harmless: true}
			}
			if _, err := caller.CallWith(t.Context(), "svc", req, o); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	calls.Wait()
	if runs.Load() != n/2 || permits.Load() != n/2 {
		t.Errorf("%d effects ran with %d permits, want %d", runs.Load(), permits.Load(), n/2)
	}
	mu.Lock()
	held, took = slices.Clone(held), slices.Clone(took)
	mu.Unlock()
	if len(took) == 0 {
		t.Fatal("no calls went from the hung instance to the other one")
	}
	// It continues, and asks for permits that nobody gives any more.
	nc := raw(t, url)
	denied := make(chan *nats.Msg, n)
	if _, err := nc.ChanSubscribe("mcp.ctl.svc.permit.hung", denied); err != nil {
		t.Fatal(err)
	}
	for _, req := range held {
		if req.AskFirst {
			sendFrames(t, nc, "mcp.reply.svc."+caller.Edge()+"."+req.Id, &busv1.Frame{Instance: "hung", Body: &busv1.Frame_Ready{Ready: &busv1.Ready{Turn: 1}}})
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	// An answer to those would arrive before the answer to this call.
	if _, err := caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{}); err != nil {
		t.Error(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(denied) > 0 {
		t.Errorf("%d permits for an instance that was given up", len(denied))
	}
	return slices.Min(took)
}

// After all instances were silent, the one that answers again receives the calls. None is left to
// the queue group, which might choose a silent one.
func TestAnInstanceThatAnswersIsNotSilent(t *testing.T) {
	t.Parallel()
	slow := true
	chosen := bus.Chosen([]string{"hung", "slow"}, func(instance string) bool {
		if instance == "slow" && slow {
			slow = false
			return true
		}
		return instance == "hung"
	}, 40)
	// The choice is random until slow has answered once.
	answered := 0
	for i, one := range chosen {
		if one == "" || one == "hung" && answered > 1 {
			t.Fatalf("call %d goes to %q: %q", i, one, chosen)
		}
		if one == "slow" {
			answered++
		}
	}
	if answered < 2 {
		t.Errorf("never called again: %q", chosen)
	}
}
