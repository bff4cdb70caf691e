package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// stranger changes the database of a service behind its back.
func stranger(t *testing.T, cfg audit.Env, statement string) {
	t.Helper()
	place := database.Config{URL: cfg.DatabaseURL, Owner: "test", Work: bustest.Patience}
	if place.URL == "" {
		place.File = cfg.DataDir + "/audit.db"
	}
	db, err := database.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
		_, err := tx.Exec(ctx, statement)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// buried is the number of messages in stream DLQ.
func (w *world) buried(t *testing.T) uint64 {
	t.Helper()
	s, err := stream(t, w.url).Stream(t.Context(), "DLQ")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// TestStrayRow: with a row behind the end of a chain, the service writes nothing, loses
// nothing and names the row. When the row is gone, it continues.
func TestStrayRow(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		said := &bustest.Log{}
		cfg.Log = slog.New(slog.NewTextHandler(said, nil))
		w.serve(t, cfg)
		w.send(t, "a", 3)
		w.settled(t)
		stranger(t, cfg, "INSERT INTO audit_event SELECT tenant, 4, 'STRAY', call, time, principal, client_name, client_version, door, method, name, service, "+
			"arguments, arguments_note, arguments_digest, outcome, executed, duration, edge, traceparent, idempotency_digest, delayed, hash, more FROM audit_event WHERE seq = 3")
		// More than ten tries take, some in one batch with another tenant's.
		for n := range 12 {
			w.send(t, []string{"a", "b"}[n%2], 5)
		}
		const row = `row 4 of tenant "a" (event STRAY)`
		instances := func() []registry.Instance {
			all, err := registry.List(t.Context(), w.conn)
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(all, func(i registry.Instance) bool { return i.Service != "audit" })
		}
		bustest.Eventually(t, "the instance says that it is not ready", func() bool {
			for _, i := range instances() {
				if why, _ := w.conn.Ready(t.Context(), i.Service, i.Instance); strings.Contains(why, row) {
					return true
				}
			}
			return false
		})
		if !strings.Contains(said.String(), "the audit trail has stopped") {
			t.Errorf("the log does not say so: %s", said)
		}
		var now audit.State
		if err := w.ask(t.Context(), "state", nil, &now); err != nil || !strings.Contains(now.Stopped, row) {
			t.Errorf("asked by an edge it says %+v, %v", now, err)
		}
		// Each message has been delivered more often than an event is tried.
		bustest.Eventually(t, "the events have been tried for long", func() bool {
			return strings.Count(said.String(), "the audit database cannot be written") > 0 && w.pending(t) > 0
		})
		var r audit.Redelivery
		w.bury(t, event("a", "BURIED-1"), "edge1")
		if err := w.ask(t.Context(), "redeliver", nil, &r); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), row) {
			t.Errorf("redelivered behind a stray row: %+v %v", r, err)
		}
		if n := w.buried(t); n != 1 {
			t.Errorf("%d events are put aside; want the one of this test", n)
		}
		stranger(t, cfg, "DELETE FROM audit_event WHERE id = 'STRAY'")
		w.settled(t)
		bustest.Eventually(t, "the instance is ready again", func() bool {
			in := instances()
			why, answers := w.conn.Ready(t.Context(), in[0].Service, in[0].Instance)
			return answers && why == ""
		})
		if n := w.buried(t); n != 1 {
			t.Errorf("%d events were put aside", n)
		}
	})
}

// TestRedeliverGivesUpPartly: a redelivery that fails after it has written some events says that it
// executed, and how many it wrote. One that wrote nothing says that nothing ran.
func TestRedeliverGivesUpPartly(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		w.serve(t, cfg)
		w.send(t, "b", 1)
		w.settled(t)
		stranger(t, cfg, "INSERT INTO audit_event SELECT tenant, 2, 'STRAY', call, time, principal, client_name, client_version, door, method, name, service, "+
			"arguments, arguments_note, arguments_digest, outcome, executed, duration, edge, traceparent, idempotency_digest, delayed, hash, more FROM audit_event WHERE seq = 1")
		w.bury(t, event("a", "A1-2"), "edge1")
		w.bury(t, event("a", "A2-2"), "edge1")
		w.buryBytes(t, []byte("\xff\xff"), "edge1") // divides the events into two transactions
		w.bury(t, event("b", "B1-2"), "edge1")
		for _, want := range []struct {
			executed fault.Executed
			says     string
		}{{fault.Yes, "2 events were written"}, {fault.No, "row 2 of tenant"}} {
			var r audit.Redelivery
			err := w.ask(t.Context(), "redeliver", nil, &r)
			if f := fault.From(err); !fault.Is(err, fault.Conflict) || f.Executed != want.executed || !strings.HasPrefix(f.Message, want.says) || !strings.Contains(f.Message, "STRAY") {
				t.Errorf("%v, executed %s; want %s and %q", err, fault.From(err).Executed, want.executed, want.says)
			}
		}
		stranger(t, cfg, "DELETE FROM audit_event WHERE id = 'STRAY'")
		w.sent += 3
		if all, _, err := w.redeliver(t.Context()); err != nil || all.Written != 1 || all.Known != 2 || len(all.Left) != 1 {
			t.Errorf("%+v %v", all, err)
		}
		w.settled(t)
		if n := w.buried(t); n != 1 {
			t.Errorf("%d events are put aside, want the one that nobody can read", n)
		}
	})
}

// pending is the number of messages of the trail that are delivered and not acknowledged.
func (w *world) pending(t *testing.T) int {
	t.Helper()
	c, err := stream(t, w.url).Consumer(t.Context(), "AUDIT", "audit-v1")
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo().NumAckPending
}

func event(tenant, id string) *auditv1.AuditEvent {
	call, _, _ := strings.Cut(id, "-")
	return &auditv1.AuditEvent{Id: id, Call: call, TimeUnixNano: uint64(time.Now().UnixNano()), Tenant: tenant, Outcome: "ok", Executed: "yes", Edge: "edge1"}
}

// bury puts aside an event that came on the subject of an edge, as the service does.
func (w *world) bury(t *testing.T, e *auditv1.AuditEvent, from string) {
	t.Helper()
	data, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	w.buryBytes(t, data, from)
}

func (w *world) buryBytes(t *testing.T, data []byte, from string) {
	t.Helper()
	msg := nats.NewMsg("mcp.dlq.audit")
	msg.Data = data
	msg.Header.Set("Busbar-Subject", "mcp.audit."+from)
	if _, err := w.conn.JetStream().PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
}

// redeliver asks until the end, as "busbar audit redeliver" does, and deletes the written
// events, as an edge does.
func (w *world) redeliver(ctx context.Context) (all audit.Redelivery, requests int, err error) {
	for p := map[string]string(nil); ; p = map[string]string{"after": all.Next} {
		var some audit.Redelivery
		if err := w.ask(ctx, "redeliver", p, &some); err != nil {
			return all, requests, err
		}
		if err := auditlog.DeadOf(w.conn).Forget(ctx, some.Committed); err != nil {
			return all, requests, err
		}
		requests++
		all.Written, all.Known, all.Left, all.Next = all.Written+some.Written, all.Known+some.Known, append(all.Left, some.Left...), some.Next
		if all.Next == "" {
			return all, requests, nil
		}
	}
}

// TestRedeliver: events that were put aside come into the trail once and in their order,
// even if the trail has some of them, or two edges ask concurrently. Events that cannot
// be written stay and are named.
func TestRedeliver(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		w.serve(t, cfg)
		if cfg.DatabaseURL != "" {
			second := cfg
			second.DataDir = t.TempDir()
			w.serve(t, second)
		}
		const calls = 600 // twice as many events as two requests handle
		known := event("a", "C000-1")
		if err := w.log.Append(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		w.sent++
		w.settled(t)
		for n := range calls {
			for _, part := range []string{"-1", "-2"} {
				w.bury(t, event([]string{"a", "b"}[n%2], fmt.Sprintf("C%03d%s", n, part)), "edge1")
			}
			switch n {
			case 10:
				w.buryBytes(t, []byte("\xff\xff"), "edge1")
			case 20:
				w.bury(t, event("a", "FORGED-1"), "edge2")
			case 30:
				w.bury(t, event("a", ""), "edge1")
			}
		}
		w.sent += 2*calls - 1
		var both sync.WaitGroup
		answers, errs := make([]audit.Redelivery, 2), make([]error, 2)
		for i := range answers {
			both.Go(func() { answers[i], _, errs[i] = w.redeliver(t.Context()) })
		}
		both.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := answers[0].Written + answers[1].Written; n != 2*calls-1 {
			t.Errorf("%d events were written, want %d", n, 2*calls-1)
		}
		for _, a := range answers {
			if len(a.Left) != 3 || !strings.Contains(a.Left[1].Why, "edge1") || a.Left[0].Why == "" || a.Left[2].Why != "it has no id" {
				t.Errorf("left %+v", a.Left)
			}
		}
		w.settled(t)
		var rows []trail.Row
		for p := map[string]string{"all": "true", "limit": "1000"}; ; {
			var page audit.Page
			if err := w.ask(t.Context(), "list", p, &page); err != nil {
				t.Fatal(err)
			}
			if rows = append(rows, page.Events...); page.Next == "" {
				break
			}
			p["cursor"] = page.Next
		}
		seqs := map[string]int64{}
		for _, r := range rows {
			if seqs[r.ID] != 0 {
				t.Errorf("%s is in the trail twice", r.ID)
			}
			seqs[r.ID] = r.Seq
		}
		for n := range calls {
			if call := fmt.Sprintf("C%03d", n); seqs[call+"-1"] >= seqs[call+"-2"] || seqs[call+"-1"] == 0 {
				t.Errorf("%s began as row %d and ended as row %d", call, seqs[call+"-1"], seqs[call+"-2"])
			}
		}
		if n := w.buried(t); n != 3 {
			t.Errorf("%d events are still put aside, want 3", n)
		}
		if a, _, err := w.redeliver(t.Context()); err != nil || a.Written+a.Known != 0 || len(a.Left) != 3 {
			t.Errorf("once more: %+v %v", a, err)
		}
		for _, p := range []map[string]string{{"after": "x"}, {"after": "-1"}, {"before": "1"}, {"after": "1", "all": "true"}} {
			if err := w.ask(t.Context(), "redeliver", p, &audit.Redelivery{}); !fault.Is(err, fault.InvalidParams) {
				t.Errorf("%v: %v", p, err)
			}
		}
	})
}

// TestDeadLettersFillTheirStream: a full DLQ discards nothing. An event that finds no
// room there stays in AUDIT, does not hold up other events, and is put aside once there
// is room.
func TestDeadLettersFillTheirStream(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["sqlite"](t)
	large := event("a", "")
	large.Arguments = []byte(`"` + strings.Repeat("x", 1000<<10) + `"`)
	n := 0
	for full := false; !full; n++ {
		large.Id = fmt.Sprintf("L%03d-2", n)
		data, err := proto.Marshal(large)
		if err != nil {
			t.Fatal(err)
		}
		msg := nats.NewMsg("mcp.dlq.audit")
		msg.Data = data
		msg.Header.Set("Busbar-Subject", "mcp.audit.edge1")
		if _, err = w.conn.JetStream().PublishMsg(t.Context(), msg); err != nil {
			full = strings.Contains(err.Error(), "maximum bytes exceeded")
			if !full || n < 60 {
				t.Fatalf("after %d events of 1,000 KiB: %v", n, err)
			}
			n--
		}
		if n > 70 {
			t.Fatal("the stream has no bound")
		}
	}
	// These two claim to be another edge's, and are put aside at once.
	forged := event("a", "")
	forged.Edge, forged.Arguments = "edge2", large.Arguments
	for _, forged.Id = range []string{"F1-2", "F2-2"} {
		if err := w.log.Append(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
	}
	w.serve(t, cfg)
	w.send(t, "a", 5)
	w.settled(t)
	if now := w.buried(t); now != uint64(n) {
		t.Errorf("%d events are put aside; want the %d that were there", now, n)
	}
	if waits := w.pending(t); waits != 2 {
		t.Errorf("%d messages wait in AUDIT, want 2", waits)
	}
	w.sent += n
	written := 0
	bustest.Eventually(t, "all are redelivered", func() bool {
		all, _, err := w.redeliver(t.Context()) // a request that a busy machine cuts off is repeated
		written += all.Written + all.Known
		return err == nil
	})
	if written < n {
		t.Errorf("%d of %d were redelivered", written, n)
	}
	w.settled(t)
	bustest.Eventually(t, "what waited is put aside", func() bool { return w.buried(t) == 2 && w.pending(t) == 0 })
}

// One request handles 500 events or 4 MiB, so that it ends in time.
func TestRedeliverInSteps(t *testing.T) {
	t.Parallel()
	w, cfg := newWorld(t), engines["sqlite"](t)
	w.serve(t, cfg)
	large := event("a", "")
	large.Arguments = []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	for n := range 100 {
		large.Id = fmt.Sprintf("L%03d-2", n)
		w.bury(t, large, "edge1")
	}
	for n := range 1001 {
		w.bury(t, event("a", fmt.Sprintf("C%04d-2", n)), "edge1")
	}
	w.sent += 1101
	if a, requests, err := w.redeliver(t.Context()); err != nil || a.Written != 1101 || requests != 5 {
		t.Errorf("%+v in %d requests, %v", a, requests, err)
	}
	w.settled(t)
}
