package isolation

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// group is a control group that bounds the processes and threads of a command. A service that is not root
// uses the kernel's limit for users instead; root has no such limit, but needs no delegation to create a
// group. nil means no group.
type group struct{ dir string }

// groupSlack is how far a command's group may exceed its limit of processes: room for the launcher, and
// for the watch to notice that the limit is passed.
const groupSlack = 64

// newGroup creates a group, or returns nil if that is not possible.
func newGroup(processes int) *group {
	if os.Geteuid() != 0 {
		return nil
	}
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for _, line := range strings.Split(string(raw), "\n") {
		// hierarchy:controllers:path; version 2 names no controllers.
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		var above []string
		switch f[1] {
		case "pids":
			above = []string{filepath.Join("/sys/fs/cgroup/pids", f[2])}
		case "":
			above = []string{filepath.Join("/sys/fs/cgroup", f[2]), filepath.Join("/sys/fs/cgroup", filepath.Dir(f[2]))}
		}
		for _, dir := range above {
			if g := groupIn(dir, processes); g != nil {
				return g
			}
		}
	}
	return nil
}

func groupIn(above string, processes int) *group {
	dir, err := os.MkdirTemp(above, "busbar-ci-")
	if err != nil {
		return nil
	}
	if os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(processes+groupSlack)), 0) != nil {
		_ = os.Remove(dir) // this version 2 hierarchy has no such controller
		return nil
	}
	return &group{dir}
}

// add moves a process into the group, with its children so far. Later children inherit the group.
func (g *group) add(pid int) {
	if g == nil {
		return
	}
	_ = os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/children"))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				g.add(n)
			}
		}
	}
}

// full reports whether a process was refused because there were too many.
func (g *group) full() bool {
	if g == nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(g.dir, "pids.events"))
	return err == nil && field(events, "max ") > 0
}

// remove removes the group after all its processes have ended.
func (g *group) remove() {
	if g == nil {
		return
	}
	for range 200 {
		if err := os.Remove(g.dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
