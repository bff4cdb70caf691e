package audit_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(q*float64(len(sorted)-1))]
}

// syncing is a NATS server that has every message on the disk of TMPDIR before it
// acknowledges it, as the server of `busbar dev` does.
func syncing(b *testing.B) string {
	return bustest.Start(b, bustest.Config{Synced: true}).URL
}

// BenchmarkCall is a call with its records and without, on a bus that leaves syncing to
// the operating system and on one that does not.
func BenchmarkCall(b *testing.B) {
	for name, url := range map[string]func(*testing.B) string{
		"relaxed": func(b *testing.B) string { return bustest.Server(b) },
		"syncing": syncing,
	} {
		b.Run(name, func(b *testing.B) { benchmarkCall(b, newWorldOn(b, url(b))) })
	}
}

func benchmarkCall(b *testing.B, w *world) {
	quiet := w.join(b, "", false)
	recorded := w.join(b, "", true)
	p99 := func(e *edge, name string) (median, high time.Duration) {
		const calls, workers = 2000, 8
		took := make([]time.Duration, 0, calls)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range calls / workers {
					start := time.Now()
					if _, err := e.Do(b.Context(), call(name, `{"text":"One bus. Many circuits."}`), nil); err != nil {
						b.Error(err)
					}
					d := time.Since(start)
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return quantile(took, 0.5), quantile(took, 0.99)
	}
	for _, name := range []string{"echo", "safe"} {
		b.Run(map[string]string{"echo": "read-only", "safe": "effect"}[name], func(b *testing.B) {
			p99(quiet, name)
			p99(recorded, name)
			var m, h, dm, dh []time.Duration
			for b.Loop() {
				for range 5 { // in turns, so that a noisy machine is noisy for both
					qm, qh := p99(quiet, name)
					rm, rh := p99(recorded, name)
					m, h, dm, dh = append(m, qm), append(h, qh), append(dm, rm), append(dh, rh)
				}
			}
			b.ReportMetric(float64(quantile(m, .5).Microseconds()), "µs-median-without")
			b.ReportMetric(float64(quantile(dm, .5).Microseconds()), "µs-median-with")
			b.ReportMetric(float64(quantile(h, .5).Microseconds()), "µs-p99-without")
			b.ReportMetric(float64(quantile(dh, .5).Microseconds()), "µs-p99-with")
			b.ReportMetric(float64(quantile(dh, .5))/float64(quantile(h, .5)), "x-p99")
		})
	}
}
