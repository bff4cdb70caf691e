package isolation

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watchTime is the interval of checks of total usage, and countTime the interval of counting
// processes: a fork bomb makes thousands of them in one watchTime.
const (
	watchTime = 100 * time.Millisecond
	countTime = 5 * time.Millisecond
)

// watch checks what all processes use together, which kernel limits without control groups cannot do, and
// stops them if it is too much.
func (p plan) watch(stop func(why string)) {
	free := room(p.Inside)
	for n := 0; ; n++ {
		if n%int(watchTime/countTime) == 0 {
			memory, threads := usage("RssAnon:", "RssShmem:")
			switch {
			case threads > p.Processes:
				stop(StoppedProcesses)
			case memory+used("/tmp") > p.Memory && exactly()+used("/tmp") > p.Memory:
				stop(StoppedMemory)
			case used("/tmp") >= p.Disk-p.Disk/64, free-room(p.Inside) > p.Disk:
				stop(StoppedDisk)
			}
		}
		if processes() > p.Processes {
			stop(StoppedProcesses)
		}
		time.Sleep(countTime)
	}
}

// processes counts the command's processes, without reading any of them.
func processes() (n int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' && name != "1" {
			n++
		}
	}
	return n
}

// usage returns the memory that processes report, in bytes, and the number of threads except this
// process's.
func usage(fields ...string) (memory int64, threads int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range dirs {
		if name == "/proc/1/status" {
			continue
		}
		status, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		threads += int(field(status, "Threads:"))
		for _, f := range fields {
			memory += field(status, f) << 10
		}
	}
	return memory, threads
}

// exactly counts memory shared by several processes once. It takes longer than usage.
func exactly() (memory int64) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	for _, name := range dirs {
		if name == "/proc/1/smaps_rollup" {
			continue
		}
		rollup, err := os.ReadFile(name)
		if err == nil && len(rollup) > 0 {
			memory += (field(rollup, "Pss_Anon:") + field(rollup, "Pss_Shmem:")) << 10
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		memory += (field(status, "RssAnon:") + field(status, "RssShmem:")) << 10
	}
	return memory
}

// field returns a number from a file of named lines.
func field(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseInt(string(f[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}

// used returns the used bytes of a file system, and room the free ones.
func used(at string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(at, &s) != nil {
		return 0
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize
}

func room(at string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(at, &s) != nil {
		return 0
	}
	return int64(s.Bfree) * s.Bsize
}
