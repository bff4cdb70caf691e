package isolation

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// watchTime is how often is looked at what a command uses as a whole.
const watchTime = 100 * time.Millisecond

// watch looks at what all processes use together, which limits of the kernel do not know
// without control groups, and stops them when it is too much.
func (p plan) watch(stop func(why string)) {
	free := room(p.Inside)
	for {
		memory, processes := usage("RssAnon:", "RssShmem:")
		switch {
		case processes > p.Processes:
			stop(StoppedProcesses)
		case memory+used("/tmp") > p.Memory && exactly()+used("/tmp") > p.Memory:
			stop(StoppedMemory)
		case used("/tmp") >= p.Disk-p.Disk/64, free-room(p.Inside) > p.Disk:
			stop(StoppedDisk)
		}
		time.Sleep(watchTime)
	}
}

// usage is what the processes say of their memory, in bytes, and how many threads there
// are besides those of this process.
func usage(fields ...string) (memory int64, threads int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range dirs {
		if name == "/proc/1/status" {
			continue
		}
		status, err := os.ReadFile(name)
		if err != nil {
			continue // it is over
		}
		threads += int(field(status, "Threads:"))
		for _, f := range fields {
			memory += field(status, f) << 10
		}
	}
	return memory, threads
}

// exactly counts memory that several processes share once. It takes longer.
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

// field is a number of a file of lines with names.
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

// used is how much of a file system is taken, and room how much is free.
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
