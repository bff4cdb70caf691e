package audit_test

import (
	"fmt"
	"testing"
	"time"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/services/audit"
)

// durable are databases that have every commit on the disk of TMPDIR before they
// acknowledge it.
var durable = map[string]func(b *testing.B) audit.Env{
	"postgres fsync=on synchronous_commit=on": func(b *testing.B) audit.Env {
		server := databasetest.Own(b, "fsync=on", "synchronous_commit=on", "full_page_writes=on")
		return env(b, server.URL())
	},
	// See database.OpenSQLite.
	"sqlite synchronous=FULL": func(b *testing.B) audit.Env {
		return env(b, "")
	},
}

// BenchmarkIngestion is how fast events go from the bus into the database, from when all
// are on the bus until the last is committed. It measures the events of a busy edge,
// which come in groups, and events that come alone.
func BenchmarkIngestion(b *testing.B) {
	for name, config := range durable {
		for size, group := range map[string]int{"groups": 500, "alone": 1} {
			b.Run(name+"/"+size, func(b *testing.B) {
				const events = 20_000
				var spent time.Duration
				for b.Loop() {
					b.StopTimer()
					w, cfg := newWorld(b), config(b)
					for range events / group {
						w.send(b, "acme", group)
					}
					b.StartTimer()
					start := time.Now()
					stop, _ := w.serve(b, cfg)
					w.written(b)
					spent += time.Since(start)
					b.StopTimer()
					w.settled(b)
					stop()
					b.StartTimer()
				}
				b.ReportMetric(events*float64(b.N)/spent.Seconds(), "rows/s")
			})
		}
	}
}

// written waits until the database has the last event.
func (w *world) written(b *testing.B) {
	b.Helper()
	id := map[string]string{"id": fmt.Sprintf("C%07d", w.sent)}
	var p audit.Page
	for deadline := time.Now().Add(2 * time.Minute); w.ask(b.Context(), "show", id, &p) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("the last event is not written")
		}
	}
}

// BenchmarkRecord is one acknowledged event of an edge, alone and among many concurrent
// ones.
func BenchmarkRecord(b *testing.B) {
	event := func(n int) *auditv1.AuditEvent {
		return &auditv1.AuditEvent{Id: fmt.Sprintf("%p%d-2", b, n), Call: "C", Tenant: "acme", Method: "tools/call", Name: "tool", Arguments: []byte(`{"text":"One bus. Many circuits."}`), Outcome: "ok"}
	}
	b.Run("alone", func(b *testing.B) {
		w, n := newWorld(b), 0
		for b.Loop() {
			n++
			if err := w.log.Append(b.Context(), event(n)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("group of 256", func(b *testing.B) {
		w, n := newWorld(b), 0
		group := make([]*auditv1.AuditEvent, 256)
		for b.Loop() {
			for i := range group {
				n++
				group[i] = event(n)
			}
			if err := w.log.Append(b.Context(), group...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
	})
}
