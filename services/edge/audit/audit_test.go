package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is a bus with a service that keeps a ledger, and the content of the stream.
type world struct {
	url string
	svc *edgetest.Service
	js  jetstream.JetStream

	mu     sync.Mutex
	ledger map[string]int // executions by call
}

func newWorld(t testing.TB) *world { return newWorldOn(t, bustest.Server(t)) }

func newWorldOn(t testing.TB, url string) *world {
	t.Helper()
	w := &world{url: url, svc: edgetest.New("svc"), ledger: map[string]int{}}
	service.AddTool(w.svc.Service, service.Tool{Name: "effect"}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ledger[c.ID()]++
		return "done", nil
	})
	w.svc.Start(t, bustest.Connect(t, w.url))
	nc, err := nats.Connect(w.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if w.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) executions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ledger)
}

// edge is the part of an edge that carries calls.
type edge struct {
	*gateway.Gateway
	name  string
	trail *audit.Trail
	// ids has the id of each recorded call, by method and name.
	ids sync.Map
	// close ends it in order, kill cuts its connection.
	close, kill func()
}

// join adds an edge. If recorded is not set, it records nothing.
func (w *world) join(t testing.TB, spool string, recorded bool) *edge {
	t.Helper()
	if !recorded {
		return w.joinTo(t, nil)
	}
	return w.joinWith(t, audit.Config{SpoolDir: spool})
}

// joinWith adds an edge that records as cfg says, except for the fields that joining
// sets.
func (w *world) joinWith(t testing.TB, cfg audit.Config) *edge {
	t.Helper()
	return w.joinTo(t, &cfg)
}

func (w *world) joinTo(t testing.TB, recorded *audit.Config) *edge {
	t.Helper()
	conn := bustest.Connect(t, w.url)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	caller, err := edges.NewCaller(conn)
	if err != nil {
		t.Fatal(err)
	}
	live, err := catalogue.Watch(ctx, conn, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	e := &edge{name: caller.Edge()}
	cfg := gateway.Config{Caller: caller, Catalogue: live, Logger: bustest.Logger(t)}
	if recorded != nil {
		recorded.Edge, recorded.Key, recorded.Logger = caller.Edge(), []byte("key"), bustest.Logger(t)
		e.trail, err = audit.New(conn, *recorded)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Auditor = noting{e.trail, &e.ids}
	}
	e.Gateway = gateway.New(cfg)
	var once sync.Once
	e.close = func() {
		once.Do(func() {
			if recorded != nil {
				e.trail.Close()
			}
			live.Close()
			_ = caller.Close()
			conn.Close()
		})
	}
	e.kill = conn.Close
	t.Cleanup(e.close)
	return e
}

// noting remembers the ids of calls.
type noting struct {
	gateway.Auditor
	ids *sync.Map
}

func (n noting) Record(ctx context.Context, r gateway.Record) error {
	n.ids.Store(r.Method+" "+r.Name, r.ID)
	return n.Auditor.Record(ctx, r)
}

// id is the id of the last call with a method and name.
func (e *edge) id(c *gateway.Call) string {
	id, _ := e.ids.Load(c.Method + " " + c.Name)
	s, _ := id.(string)
	return s
}

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func call(name, arguments string) *gateway.Call {
	return &gateway.Call{Door: "test", Method: mcp.MethodToolsCall, Name: name, Arguments: []byte(arguments)}
}

// events are the events in the stream, by id.
func (w *world) events(t testing.TB) map[string]*auditv1.AuditEvent {
	t.Helper()
	all := map[string]*auditv1.AuditEvent{}
	for _, e := range w.stream(t) {
		if all[e.Id] != nil {
			t.Errorf("%s is there twice", e.Id)
		}
		all[e.Id] = e
	}
	return all
}

// stream are the events in the stream, each once; none while the stream is away.
func (w *world) stream(t testing.TB) (all []*auditv1.AuditEvent) {
	t.Helper()
	seen := map[string]bool{}
	s, err := w.js.Stream(t.Context(), "AUDIT")
	if err != nil {
		return nil
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		var g auditv1.AuditGroup
		if err := proto.Unmarshal(msg.Data, &g); err != nil {
			t.Fatal(err)
		}
		if len(g.Events) == 0 {
			g.Events = [][]byte{msg.Data}
		}
		for _, data := range g.Events {
			e := &auditv1.AuditEvent{}
			if err := proto.Unmarshal(data, e); err != nil {
				t.Fatal(err)
			}
			if id := e.Edge + e.Id; !seen[id] { // an event that was sent again is in the trail once
				seen[id] = true
				all = append(all, e)
			}
		}
	}
	return all
}

// waitFor waits until the stream has so many events.
func (w *world) waitFor(t testing.TB, n int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("%d events are recorded", n), func() bool { return len(w.stream(t)) >= n })
}

func TestEveryCallIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.join(t, "", true)
	full := call("safe", `{"password":"hunter2","n":1}`)
	full.Client = &busv1.Client{Name: "cli\x00ent", Version: "1"}
	full.IdempotencyKey, full.Traceparent = "key-1", trace
	want := map[string]*gateway.Call{ // outcome and executed, by call
		"ok yes":                  full,
		"tool_error yes":          call("fails", ""),
		"internal unknown":        call("broken", ""),
		"forbidden no":            call("approved", ""),
		"unknown_tool no":         call("nope", ""),
		"invalid_params no":       call("strict", "{}"),
		"input_required no":       {Method: mcp.MethodToolsCall, Name: "ask", Client: &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}},
		"unknown_resource no":     {Method: mcp.MethodResourcesRead, Name: "https://u:p4ss@h/x"},
		"ok yes, of a prompt":     {Method: mcp.MethodPromptsGet, Name: "greet", Arguments: []byte(`{"who":"Ada"}`)},
		"ok yes, of a read":       {Method: mcp.MethodResourcesRead, Name: "note:///one"},
		"ok yes, of a completion": {Method: mcp.MethodComplete, Arguments: []byte(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`)},
		"method_not_found no":     {Method: "tools/drop"},
	}
	for _, c := range want {
		_, _ = e.Do(t.Context(), c, nil)
	}
	const begun = 4 // safe, fails, broken, ask
	w.waitFor(t, len(want)+begun)
	events := w.events(t)
	for name, c := range want {
		outcome, _, _ := strings.Cut(name, ",")
		got := events[e.id(c)+"-2"]
		if got == nil || got.Outcome+" "+got.Executed != outcome || got.Call != e.id(c) || got.Principal != "anonymous" || got.Method != c.Method || got.Edge != e.name {
			t.Errorf("%s is recorded as %v", name, got)
		}
		first := events[e.id(c)+"-1"]
		if started := name[0] != 'f' && strings.HasSuffix(outcome, "yes") && c.Method == mcp.MethodToolsCall || name == "internal unknown" || name == "input_required no"; started != (first != nil) {
			t.Errorf("%s: its beginning is %v", name, first)
		}
	}
	got, first := events[e.id(full)+"-2"], events[e.id(full)+"-1"]
	if string(got.Arguments) != `{"password":"***REDACTED***","n":1}` || len(got.ArgumentsDigest) != 32 || len(got.IdempotencyDigest) != 32 ||
		got.ClientName != "cli\uFFFDent" || got.Traceparent != trace || got.Service != "svc" || got.DurationNano == 0 {
		t.Errorf("%v", got)
	}
	if first.Outcome != audit.Begun || first.Executed != "unknown" || !bytes.Equal(first.ArgumentsDigest, got.ArgumentsDigest) {
		t.Errorf("%v", first)
	}
	if r := events[e.id(want["unknown_resource no"])+"-2"]; r.Name != "https://u:***REDACTED***@h/x" {
		t.Errorf("%q", r.Name)
	}
}

// A secret is nowhere on the bus, wherever a client puts it.
func TestCanaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.join(t, "", true)
	const canary = "ghp_canary0123456789canary0123456789"
	for _, c := range []*gateway.Call{
		call("safe", `{"token":"`+canary+`"}`), call("echo", `{"text":"use `+canary+`"}`), call(canary, ""),
		{Method: mcp.MethodResourcesRead, Name: "https://h/?access_token=" + canary},
		{Method: mcp.MethodToolsCall, Name: "safe", IdempotencyKey: canary, Client: &busv1.Client{Name: canary, Version: canary}},
		{Method: mcp.MethodToolsCall, Name: "safe", Credentials: gateway.Credentials{Bearer: canary}},
	} {
		_, _ = e.Do(t.Context(), c, nil)
	}
	w.waitFor(t, 9)
	for id, event := range w.events(t) {
		if strings.Contains(event.String(), "canary") {
			t.Errorf("%s: %v", id, event)
		}
	}
}

// refused requires that no call ran, and why.
func (w *world) refused(t *testing.T, e *edge) {
	t.Helper()
	before := w.executions()
	_, err := e.Do(t.Context(), call("effect", "{}"), nil)
	var f *fault.Error
	if !errors.As(err, &f) || f.Reason != fault.Unavailable || f.Executed != fault.No || !strings.Contains(f.Message, "audit trail") || w.executions() != before {
		t.Errorf("%v; %d executions", err, w.executions()-before)
	}
}

func TestStreamIsGone(t *testing.T) {
	t.Parallel()
	for name, spool := range map[string]string{"with a spool": t.TempDir(), "without one": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.join(t, spool, true)
			if _, err := e.Do(t.Context(), call("effect", "{}"), nil); err != nil {
				t.Fatal(err)
			}
			if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
				t.Fatal(err)
			}
			// From the first call on, calls with an effect are refused without a spool,
			// and calls without one go on.
			want := 1
			for range 20 {
				if spool == "" {
					w.refused(t, e)
				} else {
					want++
					w.runs(t, e)
				}
				if _, err := e.Do(t.Context(), call("echo", `{"n":1}`), nil); err != nil {
					t.Error(err)
				}
			}
			if n := w.executions(); n != want {
				t.Errorf("%d executions, want %d", n, want)
			}
			if spool != "" {
				bustest.Eventually(t, "events are spooled", func() bool { return e.trail.Stats().Spooled > 0 })
			}
			bustest.Connect(t, w.url) // brings the stream back
			if spool == "" {
				w.waitFor(t, 28) // eight that were refused alike, until a minute is over
			} else {
				w.waitFor(t, 60) // three for each round
			}
			bustest.Eventually(t, "effects are let through again", func() bool {
				_, err := e.Do(t.Context(), call("effect", "{}"), nil)
				return err == nil
			})
			bustest.Eventually(t, "nothing waits", func() bool { s := e.trail.Stats(); return s.Queued == 0 && s.Spooled == 0 && s.Dropped == 0 })
			ended := 0
			for _, event := range w.events(t) {
				if event.Name == "echo" {
					ended++
				}
			}
			if ended != 20 {
				t.Errorf("%d of the read-only calls are recorded, want 20", ended)
			}
			w.complete(t, 1) // the first one's rows went with the stream
		})
	}
}

func TestStreamIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.join(t, "", true)
	log, err := auditlog.New(bustest.Connect(t, w.url), "other")
	if err != nil {
		t.Fatal(err)
	}
	w.resize(t, 1<<20)
	for n := 0; log.Look(t.Context()) == nil && log.Room(auditlog.Begin) == nil; n++ {
		if err := log.Append(t.Context(), &auditv1.AuditEvent{Id: fmt.Sprint(n), Edge: "other", Arguments: make([]byte, 8<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "the edge sees it", func() bool {
		_, err := e.Do(t.Context(), call("effect", "{}"), nil)
		return fault.Is(err, fault.Unavailable)
	})
	w.refused(t, e)
	if _, err := e.Do(t.Context(), call("echo", "{}"), nil); err != nil {
		t.Error(err)
	}
	w.resize(t, 8<<20)
	w.calls(t, e)
}

// resize makes the stream smaller or larger.
func (w *world) resize(t testing.TB, bytes int64) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := w.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// calls waits until calls with effects run.
func (w *world) calls(t testing.TB, e *edge) {
	t.Helper()
	bustest.Eventually(t, "effects are let through again", func() bool {
		_, err := e.Do(t.Context(), call("effect", "{}"), nil)
		return err == nil
	})
}

// The stream goes away while a call runs. The answer is given once its record is safe on
// the edge's disk, and is otherwise withheld.
func TestRecordFailsAfterTheCall(t *testing.T) {
	t.Parallel()
	for name, spool := range map[string]string{"with a spool": t.TempDir(), "without one": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.join(t, spool, true)
			ended := make(chan error, 1)
			c := call("hold", "{}")
			go func() {
				_, err := e.Do(context.WithoutCancel(t.Context()), c, nil)
				ended <- err
			}()
			<-w.svc.Started
			if err := w.js.DeleteStream(t.Context(), "AUDIT"); err != nil {
				t.Fatal(err)
			}
			w.svc.Release <- struct{}{}
			err := <-ended
			var f *fault.Error
			switch {
			case spool != "" && err != nil:
				t.Errorf("its record is on the disk, and yet: %v", err)
			case spool == "" && (!errors.As(err, &f) || f.Reason != fault.Unavailable || f.Executed != fault.Yes):
				t.Errorf("%v", err)
			}
			bustest.Connect(t, w.url)
			w.waitFor(t, 1)
			// Records that were under way when the edge gave up may come before those
			// that it sends again.
			if got := w.events(t)[e.id(c)+"-2"]; got == nil || got.Outcome != "ok" {
				t.Errorf("%v", got)
			}
		})
	}
}

// Edges are killed under load: every call that ran is in the trail.
func TestCompletenessUnderKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 5 {
		e := w.join(t, "", true)
		before := w.executions()
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = e.Do(context.WithoutCancel(ctx), call("effect", "{}"), nil)
				}
			})
		}
		bustest.Eventually(t, "calls run", func() bool { return w.executions() > before+100 })
		e.kill()
		cancel()
		wg.Wait()
		e.close()
	}
	events := w.events(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.ledger {
		if events[id+"-1"] == nil || n != 1 {
			t.Errorf("call %s ran %d times, and its beginning is %v", id, n, events[id+"-1"])
		}
	}
	t.Logf("%d calls ran", len(w.ledger))
}
