package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// keeping are gateways of one bus that remember keys. Each belongs to another edge; their services
// have different handlers of the same tools.
func keeping(t *testing.T, url string) (*world, *store.Outcomes) {
	t.Helper()
	return keepingWith(t, url, func(*gateway.Config) {})
}

func keepingWith(t *testing.T, url string, change func(*gateway.Config)) (*world, *store.Outcomes) {
	t.Helper()
	var outcomes *store.Outcomes
	w := startOn(t, url, func(w *world, cfg *gateway.Config) {
		change(cfg)
		cfg.Authenticator = w
		conn := bustest.Connect(t, url)
		outcomes, cfg.Approvals = store.NewOutcomes(conn), store.NewApprovals(conn)
		cfg.Deduplicator = gateway.NewKeys(outcomes, cfg.Caller, cfg.Tasks)
	})
	return w, outcomes
}

func keyed(tool, arguments, user, key string) *gateway.Call {
	c := toolCall(tool, arguments)
	c.Credentials.Bearer, c.IdempotencyKey = user, key
	return c
}

// reliability-security.md 47: a key runs once, whichever edge it comes to.
func TestOnce(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w, _ := keeping(t, url)
	other, _ := keeping(t, url)
	ran := func() int64 { return w.svc.Calls.Load() + other.svc.Calls.Load() }
	once := func(t *testing.T, c func() *gateway.Call, want string) {
		t.Helper()
		before := ran()
		for i, g := range []*world{w, other, w} {
			a := g.works(t, c())
			if got := string(a.Result.GetJson()); got != want || a.Replayed != (i > 0) {
				t.Errorf("call %d: %s, replayed: %t", i, got, a.Replayed)
			}
			if r := g.last(t); a.Replayed != (r.Outcome == "replayed") || a.Replayed == r.Effect() {
				t.Errorf("call %d: recorded as %s, with an effect: %t", i, r.Outcome, r.Effect())
			}
		}
		if n := ran() - before; n != 1 {
			t.Errorf("%d calls ran", n)
		}
	}
	once(t, func() *gateway.Call { return keyed("safe", `{}`, "ada", "k") }, `{"content":[{"type":"text","text":"safe"}]}`)
	once(t, func() *gateway.Call { return keyed("safe", `{}`, "bob", "k") }, `{"content":[{"type":"text","text":"safe"}]}`)
	once(t, func() *gateway.Call { return keyed("fails", `{}`, "ada", "f") }, `{"content":[{"type":"text","text":"no such city"}],"isError":true}`)

	spellings := []string{`{"b":[1,"x"],"a":1.50}`, "{ \"a\": 1.50,\n\"b\": [1, \"\\u0078\"] }"}
	once(t, func() *gateway.Call {
		spellings[0], spellings[1] = spellings[1], spellings[0]
		return keyed("mirror", spellings[0], "ada", "spelt")
	}, `{"content":[{"type":"text","text":"{ \"a\": 1.50,\n\"b\": [1, \"\\u0078\"] }"}]}`)

	for name, c := range map[string]*gateway.Call{
		"other arguments": keyed("safe", `{"a":1}`, "ada", "k"),
		"another number":  keyed("mirror", `{"b":[1,"x"],"a":1.5}`, "ada", "spelt"),
		"another tool":    keyed("mirror", `{}`, "ada", "k"),
	} {
		if f := w.fails(t, c, fault.Conflict, fault.No); !strings.Contains(f.Message, "another call") {
			t.Errorf("%s: %v", name, f)
		}
	}

	// A call that may have run is not run again.
	before := ran()
	w.fails(t, keyed("panics", `{}`, "ada", "p"), fault.Internal, fault.Unknown)
	if f := other.fails(t, keyed("panics", `{}`, "ada", "p"), fault.Internal, fault.Unknown); !strings.Contains(f.Message, "not made again") {
		t.Errorf("%v", f)
	}
	// A call whose result is too large to keep is not run again either.
	large := `{"x":"` + strings.Repeat("x", 100<<10) + `"}`
	w.works(t, keyed("mirror", large, "ada", "l"))
	w.fails(t, keyed("mirror", large, "ada", "l"), fault.ResultTooLarge, fault.Yes)
	if n := ran() - before; n != 2 {
		t.Errorf("%d calls ran", n)
	}

	// Without an effect there is nothing to keep.
	before = ran()
	for range 2 {
		if w.works(t, keyed("echo", `{}`, "ada", "e")).Replayed {
			t.Error("a read-only call was kept")
		}
	}
	if n := ran() - before; n != 2 {
		t.Errorf("%d calls ran", n)
	}
}

// Of two concurrent calls one runs. The other waits for it, or is told to ask again when its own
// time is over.
func TestOnceUnderWay(t *testing.T) {
	t.Parallel()
	w, _ := keeping(t, bustest.Server(t))
	first := begin(t.Context(), w.gateway, keyed("hold", `{}`, "ada", "k"))
	<-w.svc.Started
	waitsInVain(t, w.gateway, func() *gateway.Call { return keyed("hold", `{}`, "ada", "k") })
	w.svc.Release <- struct{}{}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if a := w.works(t, keyed("hold", `{}`, "ada", "k")); !strings.Contains(string(a.Result.GetJson()), "released") {
		t.Errorf("%v", a)
	}
	if n := w.svc.Calls.Load(); n != 1 {
		t.Errorf("%d calls ran", n)
	}

	// Its client left: it may have run.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-w.svc.Started
		cancel()
	}()
	if _, err := w.gateway.Do(ctx, keyed("hold", `{}`, "ada", "left"), nil); !fault.Is(err, fault.Cancelled) {
		t.Fatal(err)
	}
	w.fails(t, keyed("hold", `{}`, "ada", "left"), fault.Cancelled, fault.Unknown)
}

// waitsInVain makes a repetition whose time is over before the first call is. The first one may
// have had its effect.
func waitsInVain(t *testing.T, g *gateway.Gateway, call func() *gateway.Call) {
	t.Helper()
	var err error
	// A busy machine may use up a short time limit while it looks for the key.
	for has := 500 * time.Millisecond; has < 10*time.Second; has *= 2 {
		short, stop := context.WithTimeout(t.Context(), has)
		_, err = g.Do(short, call(), nil)
		stop()
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.PeerLost) {
			break
		}
	}
	if !is(err, fault.Conflict, fault.Unknown) || fault.From(err).RetryAfter <= 0 {
		t.Errorf("%v", err)
	}
}

// slowTasks makes no task until it may.
type slowTasks struct {
	gateway.Tasks
	begun, may chan struct{}
}

func (s slowTasks) CreateFor(ctx context.Context, credential, service string, req *busv1.Request, begun *busv1.Task) (*busv1.TaskRecord, error) {
	s.begun <- struct{}{}
	<-s.may
	return s.Tasks.CreateFor(ctx, credential, service, req, begun)
}

// A repetition that arrives while the edge of the first call makes its task waits for that task,
// at whichever edge.
func TestOnceTaskUnderWay(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	slow := slowTasks{begun: make(chan struct{}, 1), may: make(chan struct{})}
	w, _ := keepingWith(t, url, func(cfg *gateway.Config) {
		slow.Tasks = cfg.Tasks
		cfg.Tasks = slow
	})
	other, _ := keeping(t, url)
	call := func() *gateway.Call { return taking(keyed("later", `{}`, "ada", "k")) }
	first := make(chan *gateway.Answer, 1)
	go func() {
		a, err := w.gateway.Do(t.Context(), call(), nil)
		if err != nil {
			t.Error(err)
		}
		first <- a
	}()
	<-slow.begun
	for _, g := range []*world{w, other} {
		waitsInVain(t, g.gateway, call)
	}
	close(slow.may)
	id := (<-first).Task.GetRequest().GetId()
	for name, g := range map[string]*world{"its edge": w, "another edge": other} {
		if a := g.works(t, call()); a.Task.GetRequest().GetId() != id || id == "" {
			t.Errorf("at %s: %v, want task %s", name, a, id)
		}
	}
}

// A call that was held, approved and made needs no second approval.
func TestOnceHeld(t *testing.T) {
	t.Parallel()
	w, _ := keeping(t, bustest.Server(t))
	c := func() *gateway.Call { return keyed("approved", "{ \"a\" : [1, 2],\n\"b\": 1.0 }", "ada", "k") } // byte for byte
	f := w.fails(t, c(), fault.ApprovalRequired, fault.No)
	if second := w.fails(t, c(), fault.ApprovalRequired, fault.No); string(second.Data) == string(f.Data) {
		t.Error("two calls are held as one")
	}
	if _, err := approve(t, w.gateway, gateway.Credentials{Bearer: "ada"}, heldID(t, f), true); err != nil {
		t.Fatal(err)
	}
	if a := w.works(t, c()); !strings.Contains(string(a.Result.GetJson()), "done") || !a.Replayed {
		t.Errorf("%v", a)
	}
}

// A service that keeps keys with its data is asked each time.
func TestServiceKeepsKeys(t *testing.T) {
	t.Parallel()
	w, _ := keeping(t, bustest.Server(t))
	keys := make(chan string, 2)
	service.AddTool(w.svc.Service, service.Tool{Name: "keeps", KeepsKeys: true}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		keys <- c.IdempotencyKey()
		return "kept", nil
	})
	bustest.Eventually(t, "the tool", func() bool {
		_, err := w.gateway.Do(t.Context(), &gateway.Call{Method: mcp.MethodToolsCall, Name: "keeps", Arguments: []byte(`{"no":1}`)}, nil)
		return fault.Is(err, fault.InvalidParams)
	})
	for range 2 {
		w.works(t, keyed("keeps", `{}`, "ada", "k"))
		if key := <-keys; key != "k" {
			t.Errorf("key %q", key)
		}
	}
}

// A release that keeps keys itself does not repeat a call that an edge recorded for an older
// release.
func TestKeysMoveToTheService(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w, _ := keeping(t, url)
	runs := make(chan string, 10)
	release := func(version string, keeps bool) *service.Running {
		s := service.New("mover", service.WithVersion(version), service.WithLogger(bustest.Logger(t)))
		service.AddTool(s, service.Tool{Name: "move", KeepsKeys: keeps}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
			runs <- version + " " + c.IdempotencyKey()
			return version, nil
		})
		r, err := s.Start(t.Context(), bustest.Connect(t, url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Stop(context.WithoutCancel(t.Context())) })
		return r
	}
	old := release("1.0.0", false)
	bustest.Eventually(t, "the old release", func() bool { _, ok := w.live.Now().Tool("move"); return ok })
	w.works(t, keyed("move", `{}`, "ada", "k"))
	if err := old.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	release("2.0.0", true)
	bustest.Eventually(t, "the new release", func() bool {
		target, ok := w.live.Now().Tool("move")
		return ok && target.Tool.KeepsKeys
	})
	answer, err := w.gateway.Do(t.Context(), keyed("move", `{}`, "ada", "k"), nil)
	if err != nil || !answer.Replayed || len(runs) != 1 {
		t.Errorf("repeated: %+v, %v after %d runs", answer, err, len(runs))
	}
	w.works(t, keyed("move", `{}`, "ada", "other"))
	if len(runs) != 2 {
		t.Errorf("another key: %d runs", len(runs))
	}
}
