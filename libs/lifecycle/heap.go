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
	// heapRoom is how far the heap grows, at least, before garbage is collected. Without it, a
	// program with 15 MiB of its own that makes 20 KB of garbage a call would spend a tenth of
	// its work on collections.
	heapRoom = 64 << 20
	// memoryShare is the share of the container's memory that the heap may use.
	memoryShare = 0.9
	// usualGrowth is Go's default growth of a heap in percent, greatestGrowth the growth of an
	// almost empty heap.
	usualGrowth, greatestGrowth = 100, 1600
)

// setHeap makes the heap grow by heapRoom between collections, and keeps it within the memory
// of the container. GOGC and GOMEMLIMIT take precedence if they are set.
func setHeap() {
	// An operator already knows the container's limits.
	quiet := slog.New(slog.DiscardHandler)
	_, _ = memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithLogger(quiet))
	if os.Getenv("GOGC") == "" {
		pace(usualGrowth)
	}
	giveBack(giveBackTime, 0)
}

const (
	// giveBackTime is the interval of checks whether most goroutines have ended.
	giveBackTime = 10 * time.Second
	// many is the number of goroutines whose memory is worth a collection.
	many = 1000
)

// giveBack returns memory to the system soon after most goroutines have ended, for example
// when many clients leave at once. Go itself would collect their garbage only after two
// minutes, and keep most of the memory. most is the largest number of goroutines seen.
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

// pace sets how far the heap grows until the next collection, and repeats that after each
// collection. now is the last value.
func pace(now int) {
	// The percentage refers to everything that the collector scans.
	size := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(size)
	var all uint64
	for _, part := range size {
		all += part.Value.Uint64()
	}
	next := growth(all)
	if next < now*9/10 || next > now*11/10 { // setting it stops the program for a moment
		debug.SetGCPercent(next)
		now = next
	}
	runtime.AddCleanup(new(*byte), pace, now)
}

// growth returns heapRoom as a percentage of size, or Go's default if that is more.
func growth(size uint64) int {
	return int(min(max(heapRoom*100/max(size, 1), usualGrowth), greatestGrowth))
}
