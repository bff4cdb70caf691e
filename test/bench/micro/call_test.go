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

// anybody is a server without authentication.
func anybody(start func(*testing.B) net.Addr) func(*testing.B) (net.Addr, string) {
	return func(b *testing.B) (net.Addr, string) { return start(b), "" }
}

func recorded(b *testing.B) net.Addr   { return startBusbar(b, edge.Audit{}) }
func unrecorded(b *testing.B) net.Addr { return startBusbar(b, edge.Audit{Off: true}) }

// processorTime is the processor time of this process: client, server and bus.
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
