package lifecycle

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// heapRoom is how far the heap grows, at least, before garbage is collected. A program
	// with 15 MiB of its own that makes 20 KB of garbage a call would collect it every
	// 800 calls, at the price of a tenth of its work.
	heapRoom = 64 << 20
	// memoryShare is the part of the container's memory that the heap may take.
	memoryShare = 0.9
	// usualGrowth is the percentage that Go lets a heap grow by, greatestGrowth that of
	// a heap of next to nothing.
	usualGrowth, greatestGrowth = 100, 1600
)

// setHeap has the heap grow by heapRoom between collections, and stay within the memory of
// the container. GOGC and GOMEMLIMIT, where they are set, count instead.
func setHeap() {
	// What the kernel says of the container is no news to an operator.
	quiet := slog.New(slog.DiscardHandler)
	_, _ = memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithLogger(quiet))
	if os.Getenv("GOGC") == "" {
		pace(usualGrowth)
	}
	giveBack(giveBackTime, 0)
}

const (
	// giveBackTime is how often it is looked whether most of what a program did has ended.
	giveBackTime = 10 * time.Second
	// many is a number of goroutines whose memory is worth a collection.
	many = 1000
)

// giveBack gives memory back to the system soon after most goroutines have ended, as those
// of clients do that leave together: what they had is garbage, which Go collects when two
// minutes have passed, and keeps most of. most is how many there were.
func giveBack(every time.Duration, most int) {
	time.AfterFunc(every, func() {
		now := runtime.NumGoroutine()
		if most = max(most, now); most >= many && now < most/2 {
			most = now
			debug.FreeOSMemory()
		}
		giveBack(every, most)
	})
}

// pace sets how far the heap grows until the next collection, and does so again after it.
// now is what was set last.
func pace(now int) {
	// The percentage is of all that the collector goes through.
	size := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(size)
	var all uint64
	for _, part := range size {
		all += part.Value.Uint64()
	}
	next := growth(all)
	if next < now*9/10 || next > now*11/10 { // to set it stops the program for a moment
		debug.SetGCPercent(next)
		now = next
	}
	runtime.AddCleanup(new(*byte), pace, now)
}

// growth is the percentage of size that is heapRoom, or that Go has if that is more.
func growth(size uint64) int {
	return int(min(max(heapRoom*100/max(size, 1), usualGrowth), greatestGrowth))
}
