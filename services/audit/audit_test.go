package audit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Code(databasetest.Main(m))) }

// world is a bus with an edge's log of events, and a client that asks questions.
type world struct {
	url    string
	conn   *bus.Conn
	log    *auditlog.Log
	caller *bus.Caller
	sent   int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{url: bustest.Server(t)}
	w.conn = bustest.Connect(t, w.url)
	var err error
	if w.log, err = auditlog.New(w.conn, "edge1"); err != nil {
		t.Fatal(err)
	}
	if w.caller, err = bus.NewCaller(w.conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.caller.Close() })
	return w
}

// engines are the configurations that a test runs with.
var engines = map[string]func(t testing.TB) audit.Env{
	"postgres": func(t testing.TB) audit.Env {
		return env(t, databasetest.Postgres(t))
	},
	"sqlite": func(t testing.TB) audit.Env {
		return env(t, "")
	},
}

// env is a service without log lines, with a directory of its own.
func env(t testing.TB, url string) audit.Env {
	data := service.DataEnv{Env: service.Env{Log: slog.New(slog.DiscardHandler)}, DatabaseURL: url, DataDir: t.TempDir()}
	return audit.Env{DataEnv: data, AckWait: time.Second}
}

// on runs a test on both engines.
func on(t *testing.T, test func(*testing.T, *world, audit.Env)) {
	t.Parallel()
	for name, config := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t), config(t))
		})
	}
}

// serve starts an instance. kill cuts its connection, as its death does.
func (w *world) serve(t testing.TB, cfg audit.Env) (stop, kill func()) {
	t.Helper()
	conn := bustest.Connect(t, w.url)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	s, err := audit.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Start(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end := func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = r.Stop(ctx)
		})
	}
	t.Cleanup(end)
	return end, func() { conn.Close(); end() }
}

// send records n calls of a tenant.
func (w *world) send(t testing.TB, tenant string, n int) {
	t.Helper()
	var events []*auditv1.AuditEvent
	for range n {
		w.sent++
		call := fmt.Sprintf("C%07d", w.sent)
		events = append(events, &auditv1.AuditEvent{
			Id: call + "-2", Call: call, TimeUnixNano: uint64(time.Now().UnixNano()), Tenant: tenant, Principal: "ada", Door: "test",
			Method: "tools/call", Name: "tool", Service: "svc", Arguments: []byte(`{"n":1}`), Outcome: "ok", Executed: "yes", DurationNano: 5, Edge: "edge1",
		})
	}
	if err := w.log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) ask(ctx context.Context, name string, p map[string]string, into any) error {
	arguments, err := json.Marshal(p)
	if err != nil {
		return err
	}
	f, err := w.caller.Call(ctx, "audit", &busv1.Request{Method: bus.AuditQuery, Name: name, Arguments: arguments}, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(f.GetResult().GetJson(), into)
}

// settled waits until everything that was sent is written, and requires that each event
// is there once and the trail verifies.
func (w *world) settled(t testing.TB) trail.Report {
	t.Helper()
	var r trail.Report
	count := func() (n int) {
		if w.ask(t.Context(), "verify", nil, &r) != nil {
			return -1
		}
		for _, c := range r.Chains {
			n += int(c.Last)
		}
		return n
	}
	deadline := time.Now().Add(bustest.Patience)
	for count() != w.sent {
		if time.Now().After(deadline) {
			t.Fatalf("%d rows of %d: %+v", count(), w.sent, r)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !r.OK {
		t.Fatalf("%+v", r)
	}
	return r
}

func TestTrail(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		w.send(t, "acme", 3)
		cfg.Checkpoint = 50 * time.Millisecond
		stop, _ := w.serve(t, cfg)
		w.send(t, "", 2)
		w.settled(t)
		bustest.Eventually(t, "all is signed", func() bool {
			r := w.settled(t)
			return r.Chains[0].Signed == 2 && r.Chains[1].Signed == 3
		})
		var p audit.Page
		if err := w.ask(t.Context(), "list", map[string]string{"tenant": "acme", "limit": "2", "since": "1h"}, &p); err != nil || len(p.Events) != 2 || p.Next == "" {
			t.Errorf("%+v %v", p, err)
		}
		if err := w.ask(t.Context(), "show", map[string]string{"id": "C0000001"}, &p); err != nil || len(p.Events) != 1 || string(p.Events[0].Arguments) != `{"n":1}` {
			t.Errorf("%+v %v", p, err)
		}
		for name, c := range map[string]struct {
			verb string
			p    map[string]string
			want fault.Reason
		}{
			"unknown filter": {"list", map[string]string{"colour": "red"}, fault.InvalidParams},
			"wrong time":     {"list", map[string]string{"since": "yesterday"}, fault.InvalidParams},
			"wrong cursor":   {"list", map[string]string{"cursor": "!"}, fault.InvalidParams},
			"NUL":            {"list", map[string]string{"name": "a\x00"}, fault.InvalidParams},
			"no id":          {"show", nil, fault.InvalidParams},
			"no such id":     {"show", map[string]string{"id": "x"}, fault.UnknownResource},
			"no such verb":   {"drop", nil, fault.MethodNotFound},
		} {
			if err := w.ask(t.Context(), c.verb, c.p, &p); !fault.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.caller.Call(t.Context(), "audit", &busv1.Request{Method: "tools/call", Name: "list"}, nil); !fault.Is(err, fault.UnknownTool) {
			t.Errorf("as a tool: %v", err)
		}
		// After a restart, everything is still there, and recording continues.
		stop()
		w.send(t, "acme", 4)
		w.serve(t, cfg)
		w.settled(t)
	})
}

func TestInstanceIsKilled(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		for range 4 {
			_, kill := w.serve(t, cfg)
			w.send(t, "a", 700)
			kill()
		}
		w.serve(t, cfg)
		w.settled(t)
	})
}

func TestSeveralInstances(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["postgres"](t)
	for range 3 {
		cfg.DataDir = t.TempDir() // each with a key of its own
		cfg.Checkpoint = 20 * time.Millisecond
		w.serve(t, cfg)
	}
	for n := range 20 {
		w.send(t, fmt.Sprint("t", n%4), 100)
	}
	w.settled(t)
}

func TestPostgresIsKilled(t *testing.T) {
	t.Parallel()
	w, server := newWorld(t), databasetest.Own(t)
	w.serve(t, env(t, server.URL()))
	for range 3 {
		w.send(t, "a", 600)
		server.Kill()
		w.send(t, "a", 600)
		// Longer than an event may stay unacknowledged before it goes to another
		// instance.
		var p audit.Page
		bustest.Eventually(t, "the service says that it cannot answer", func() bool {
			return fault.Is(w.ask(t.Context(), "list", nil, &p), fault.Unavailable)
		})
		server.Start(t)
	}
	w.settled(t)
}

// TestSlowDatabase: a batch that takes longer to write than events may stay
// unacknowledged is written once, and is not begun again and again.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["postgres"](t)
	w.serve(t, cfg)
	conn, err := pgx.Connect(t.Context(), cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2.5); RETURN NULL; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON audit_event FOR EACH STATEMENT EXECUTE FUNCTION slow()`); err != nil {
		t.Fatal(err)
	}
	w.send(t, "a", 300)
	w.settled(t)
}

// An event that the database refuses is put aside. The events around it, in the same
// message and in others, are written.
func TestPoisonedEvent(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["postgres"](t)
	w.send(t, "a", 40)
	events := []*auditv1.AuditEvent{{Id: "before"}, {Id: longID(10 << 10)}, {Id: "after"}}
	for _, e := range events {
		e.Tenant, e.Outcome, e.Edge = "a", "ok", "edge1"
	}
	if err := w.log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	w.sent += 2
	w.send(t, "a", 40)
	w.serve(t, cfg)
	w.settled(t)
	js := stream(t, w.url)
	// Ten tries, with a second between the later ones.
	for deadline := time.Now().Add(bustest.Patience); ; time.Sleep(50 * time.Millisecond) {
		if s, err := js.Stream(t.Context(), "DLQ"); err == nil && s.CachedInfo().State.Msgs == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not put aside")
		}
	}
	bustest.Eventually(t, "no message waits", func() bool {
		c, err := js.Consumer(t.Context(), "AUDIT", "audit-v1")
		return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().NumPending == 0
	})
}

// longID is an id that is too long for any index.
func longID(n int) string {
	var id strings.Builder
	for id.Len() < n {
		id.WriteString(rand.Text())
	}
	return id.String()
}

// An instance that receives an event many times writes it once.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["sqlite"](t)
	w.send(t, "a", 20)
	r := auditlog.NewReader(w.conn, time.Second)
	for given := 0; given < 20*10; {
		batch, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch {
			d.Release()
		}
		given += len(batch)
	}
	w.serve(t, cfg)
	w.settled(t)
	// Somebody removes the consumer: the reader makes it again.
	js := stream(t, w.url)
	if err := js.DeleteConsumer(t.Context(), "AUDIT", "audit-v1"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the consumer is there again", func() bool {
		_, err := js.Consumer(t.Context(), "AUDIT", "audit-v1")
		return err == nil
	})
	w.send(t, "a", 1)
	w.settled(t)
}

func stream(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A database that was restored from an older copy is found out, and the earlier
// checkpoints are not overwritten.
func TestRestoreOfAnOldCopy(t *testing.T) {
	t.Parallel()
	w, old := newWorld(t), engines["sqlite"](t)
	w.send(t, "a", 5)
	stop, _ := w.serve(t, old)
	w.settled(t)
	stop()
	copied := old
	copied.DataDir = t.TempDir()
	for _, name := range []string{"audit.db", "audit.key"} {
		data, err := os.ReadFile(old.DataDir + "/" + name)
		if err == nil {
			err = os.WriteFile(copied.DataDir+"/"+name, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop, _ = w.serve(t, old)
	w.send(t, "a", 5)
	w.settled(t)
	stop() // signs a checkpoint
	copied.Checkpoint = 10 * time.Millisecond
	w.serve(t, copied)
	w.send(t, "a", 20)
	bustest.Eventually(t, "the copy is found out", func() bool {
		var r trail.Report
		if err := w.ask(t.Context(), "verify", nil, &r); err != nil || len(r.Chains) == 0 {
			return false
		}
		p := r.Chains[0].Problem
		return r.Chains[0].Last >= 9 && p != nil && p.Seq == 10 && strings.Contains(p.What, "rewritten")
	})
}

func TestNew(t *testing.T) {
	t.Parallel()
	open := func(cfg audit.Env) error {
		s, err := audit.New(t.Context(), cfg)
		if err == nil {
			s.Close()
		}
		return err
	}
	loose := t.TempDir()
	if err := os.WriteFile(loose+"/audit.key", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose+"/audit.key", 0o644); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(broken+"/audit.key", []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, cfg := range map[string]service.DataEnv{
		"needs a directory":   {},
		"not one of Postgres": {DatabaseURL: "mysql://x", DataDir: t.TempDir()},
		"others may read":     {DataDir: loose},
		"32 random bytes":     {DataDir: broken},
	} {
		if err := open(audit.Env{DataEnv: cfg}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	dir := t.TempDir()
	for range 2 {
		if err := open(audit.Env{DataEnv: service.DataEnv{DataDir: dir}}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir + "/audit.key")
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
}
