package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name string
		live uint64
		want int
	}{
		{"before the first collection", 0, 1600},
		{"next to nothing", 1 << 20, 1600},
		{"a small service", 8 << 20, 800},
		{"as much as the room", 64 << 20, 100},
		{"ten thousand streams", 300 << 20, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := growth(c.live); got != c.want {
				t.Errorf("a heap of %d bytes grows by %d %%, not %d", c.live, got, c.want)
			}
		})
	}
}

// making is the environment variable that turns the test binary into a program that makes garbage,
// or one with many goroutines.
const making = "BUSBAR_TEST_GARBAGE"

var kept, garbage []byte

// makeGarbage prints how often garbage was collected.
func makeGarbage() {
	setHeap()
	switch os.Getenv(making) {
	case "goroutines":
		makeGoroutines()
		return
	case "guests":
		makeGuests()
		return
	}
	kept = make([]byte, 8<<20)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 480 {
		garbage = make([]byte, 100<<10)
	}
	runtime.ReadMemStats(&after)
	fmt.Print(after.NumGC - before.NumGC)
	runtime.KeepAlive(kept)
}

// Garbage collection is configured for the whole program.
func TestHeapHasRoom(t *testing.T) {
	collections := func(env ...string) (n int) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), making+"=1"), env...)
		out, err := cmd.Output()
		if err == nil {
			n, err = strconv.Atoi(string(out))
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// 48 MB of garbage with 8 MiB of live data.
	if n := collections("GOGC="); n > 1 {
		t.Errorf("collected %d times", n)
	}
	if n := collections("GOGC=100"); n < 2 {
		t.Errorf("collected %d times, where GOGC says otherwise", n)
	}
	if n := collections("GOGC=", "GOMEMLIMIT=20MiB"); n < 2 {
		t.Errorf("collected %d times, where the program may take 20 MiB", n)
	}
}

// makeGoroutines prints by how many bytes the heap may grow with 32 MiB of stacks.
func makeGoroutines() {
	started, end := make(chan struct{}), make(chan struct{})
	for range 2000 {
		go func() {
			var frame [16 << 10]byte
			started <- struct{}{}
			<-end
			runtime.KeepAlive(&frame)
		}()
		<-started
	}
	var room uint64
	for range 100 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // to be paced
		now := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(now)
		if room = now[0].Value.Uint64() - now[1].Value.Uint64(); room <= heapRoom*5/4 {
			break
		}
	}
	fmt.Print(room)
	close(end)
}

func TestStacksMakeNoMoreRoom(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), making+"=goroutines", "GOGC=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if room, err := strconv.Atoi(string(out)); err != nil || room > heapRoom*5/4 || room < heapRoom/2 {
		t.Errorf("the heap may grow by %s bytes, %v", out, err)
	}
}

// makeGuests prints how many MiB of many goroutines' memory are returned after they have ended, if
// nothing else happens.
func makeGuests() {
	end := make(chan struct{})
	var all sync.WaitGroup
	for range 2 * many {
		has := make([]byte, 32<<10)
		all.Go(func() { <-end; runtime.KeepAlive(has) })
	}
	giveBack(10*time.Millisecond, runtime.NumGoroutine())
	close(end)
	all.Wait()
	given := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
	for range 3000 {
		if metrics.Read(given); given[0].Value.Uint64() > 2*many*32<<10*3/4 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Print(given[0].Value.Uint64() >> 20)
}

func TestWhoLeavesTakesNoRoom(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), making+"=guests", "GOGC=", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if given, err := strconv.Atoi(string(out)); err != nil || given < 2*many*32>>10*3/4 {
		t.Errorf("%s MiB are given back, %v", out, err)
	}
}
