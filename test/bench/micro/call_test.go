package micro

import (
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge"
)

// connections is how many clients call at once.
const connections = 32

// BenchmarkToolsCall is one small tools/call, for profiles and allocations.
func BenchmarkToolsCall(b *testing.B) {
	for _, peer := range []struct {
		name, tool string
		start      func(*testing.B) (net.Addr, string)
	}{
		{"busbar", echo, anybody(recorded)},
		{"busbar with an effect", effect, anybody(recorded)},
		{"busbar unrecorded", echo, anybody(unrecorded)},
		{"busbar guarded", echo, guarded(policy)},
		{"busbar with a condition", echo, guarded(conditional)},
		{"floor", echo, anybody(func(b *testing.B) net.Addr { return startFloor(b, strings.Repeat("x", 300)) })},
		{"sdk", echo, anybody(startSDK)},
	} {
		b.Run(peer.name, func(b *testing.B) {
			addr, key := peer.start(b)
			clients := make([]*client, connections)
			for i := range clients {
				clients[i] = dialAs(b, addr, peer.tool, key)
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

// anybody is a server that asks nobody who calls.
func anybody(start func(*testing.B) net.Addr) func(*testing.B) (net.Addr, string) {
	return func(b *testing.B) (net.Addr, string) { return start(b), "" }
}

func recorded(b *testing.B) net.Addr   { return startBusbar(b, edge.Audit{}) }
func unrecorded(b *testing.B) net.Addr { return startBusbar(b, edge.Audit{Off: true}) }

// BenchmarkRatios measures all in turns within one run, so that a noisy machine
// is noisy for all, and reports Busbar's rate as a multiple of each other's: the
// median over the turns. What its records cost is reported as the processor time
// of a call that is recorded, as a multiple of that of one that is not: of a
// read-only call, and of one that may have an effect. What a policy, limits and an API
// key cost is the rate with all of them as a multiple of the rate with none, without
// and with a condition on the arguments.
func BenchmarkRatios(b *testing.B) {
	busbar := recorded(b)
	probe := dial(b, busbar, echo)
	if err := probe.call(); err != nil {
		b.Fatal(err)
	}
	guardedAt, key := guarded(policy)(b)
	conditionalAt, other := guarded(conditional)(b)
	peers := []struct {
		addr      net.Addr
		tool, key string
	}{{busbar, echo, ""}, {startFloor(b, string(probe.answer)), echo, ""}, {startSDK(b), echo, ""}, {unrecorded(b), echo, ""}, {busbar, effect, ""}, {guardedAt, echo, key}, {conditionalAt, echo, other}}
	clients := make([][]*client, len(peers))
	for i, peer := range peers {
		for range connections {
			clients[i] = append(clients[i], dialAs(b, peer.addr, peer.tool, peer.key))
		}
		rate(b, clients[i], 200*time.Millisecond) // warm
	}
	b.ResetTimer()
	for b.Loop() {
		const turns = 9
		var own, floor, sdk, readOnly, effects, guards, conditions []float64
		for range turns {
			var r, cpu [7]float64
			for i := range peers {
				r[i], cpu[i] = rate(b, clients[i], 400*time.Millisecond)
			}
			own, floor, sdk = append(own, r[0]), append(floor, r[0]/r[1]), append(sdk, r[0]/r[2])
			readOnly, effects = append(readOnly, cpu[0]/cpu[3]), append(effects, cpu[4]/cpu[3])
			guards, conditions = append(guards, r[5]/r[0]), append(conditions, r[6]/r[0])
		}
		b.ReportMetric(median(own), "calls/s")
		b.ReportMetric(median(floor), "x-floor")
		b.ReportMetric(median(sdk), "x-sdk")
		b.ReportMetric(median(readOnly), "x-cpu-recorded")
		b.ReportMetric(median(effects), "x-cpu-recorded-effect")
		b.ReportMetric(median(guards), "x-guarded")
		b.ReportMetric(median(conditions), "x-guarded-condition")
	}
}

// rate returns calls a second, and seconds of processor time a call.
func rate(b *testing.B, clients []*client, d time.Duration) (calls, cpu float64) {
	var n atomic.Int64
	start, used := time.Now(), processorTime(b)
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for time.Since(start) < d {
				if err := c.call(); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	count := float64(n.Load())
	return count / time.Since(start).Seconds(), (processorTime(b) - used).Seconds() / count
}

// processorTime is what this process has used: client, server and bus.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
