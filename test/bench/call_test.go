package bench

import (
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// connections is how many clients call at once.
const connections = 32

// BenchmarkToolsCall is one small tools/call, for profiles and allocations.
func BenchmarkToolsCall(b *testing.B) {
	for _, peer := range []struct {
		name  string
		start func(*testing.B) net.Addr
	}{
		{"busbar", startBusbar},
		{"floor", func(b *testing.B) net.Addr { return startFloor(b, strings.Repeat("x", 300)) }},
		{"sdk", startSDK},
	} {
		b.Run(peer.name, func(b *testing.B) {
			addr := peer.start(b)
			clients := make([]*client, connections)
			for i := range clients {
				clients[i] = dial(b, addr)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := c.call(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkRatios measures the three in turns within one run, so that a noisy
// machine is noisy for all, and reports Busbar's rate as a multiple of each
// other's: the median over the turns.
func BenchmarkRatios(b *testing.B) {
	busbar := startBusbar(b)
	probe := dial(b, busbar)
	if err := probe.call(); err != nil {
		b.Fatal(err)
	}
	peers := []net.Addr{busbar, startFloor(b, string(probe.answer)), startSDK(b)}
	clients := make([][]*client, len(peers))
	for i, addr := range peers {
		for range connections {
			clients[i] = append(clients[i], dial(b, addr))
		}
		rate(b, clients[i], 200*time.Millisecond) // warm
	}
	b.ResetTimer()
	for b.Loop() {
		const turns = 9
		var floor, sdk, own []float64
		for range turns {
			var r [3]float64
			for i := range peers {
				r[i] = rate(b, clients[i], 400*time.Millisecond)
			}
			own, floor, sdk = append(own, r[0]), append(floor, r[0]/r[1]), append(sdk, r[0]/r[2])
		}
		b.ReportMetric(median(own), "calls/s")
		b.ReportMetric(median(floor), "x-floor")
		b.ReportMetric(median(sdk), "x-sdk")
	}
}

func rate(b *testing.B, clients []*client, d time.Duration) float64 {
	var calls atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for time.Since(start) < d {
				if err := c.call(); err != nil {
					b.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds()
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
