package audit_test

import (
	"fmt"
	"testing"
	"time"

	auditv1 "github.com/busbar-mcp/busbar/gen/busbar/audit/v1"
)

// BenchmarkIngestion is how fast events go from the bus into the database: the
// time from when all are on the bus until the last is committed.
func BenchmarkIngestion(b *testing.B) {
	for name, config := range engines {
		b.Run(name, func(b *testing.B) {
			const events = 20_000
			for b.Loop() {
				b.StopTimer()
				w := newWorld(b)
				for range events / 500 {
					w.send(b, "acme", 500)
				}
				cfg := config(b)
				b.StartTimer()
				start := time.Now()
				stop, _ := w.serve(b, cfg)
				w.settled(b)
				b.ReportMetric(events/time.Since(start).Seconds(), "rows/s")
				b.StopTimer()
				stop()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkRecord is one acknowledged event of an edge, alone and of many at
// once.
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
