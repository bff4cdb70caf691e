// Package process runs programs that are measured, and returns the processor time and memory that
// each has used. It reads /proc, so it is for Linux.
package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyTime = time.Minute
	stopTime  = 45 * time.Second
	askEvery  = 20 * time.Millisecond
	// tick is the unit of times in /proc/PID/stat, for every Linux that Go runs on.
	tick = 10 * time.Millisecond
)

// Process is a program that runs, with its children.
type Process struct {
	// Name is its name in figures.
	Name string
	// Ready has the values of its ready line: "mcp=http://…" is Ready["mcp"].
	Ready map[string]string

	pid    int
	cmd    *exec.Cmd
	log    string
	stdout *os.File
	exited chan struct{}
}

// Command says what to run.
type Command struct {
	Name string
	Path string
	Args []string
	// Env is added to this process's, without what configures a Busbar.
	Env []string
	// Dir is where its log goes.
	Dir string
	// ReadyAt is for a program without a ready line: the program is ready when ReadyAt returns no
	// error.
	ReadyAt func() error
}

var said = regexp.MustCompile(`(\w+)=(\S+)`)

// Start runs a program and returns when it is ready.
func Start(c Command) (*Process, error) {
	p := &Process{Name: c.Name, Ready: map[string]string{}, exited: make(chan struct{}), cmd: exec.Command(c.Path, c.Args...)}
	p.cmd.Env = append(Environment(), c.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log, err := os.CreateTemp(c.Dir, c.Name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.log, p.cmd.Stderr = log.Name(), log
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.stdout, p.cmd.Stdout = r, w
	started := make(chan error, 1)
	go p.run(started)
	err = <-started
	_ = w.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p.pid = p.cmd.Process.Pid
	if c.ReadyAt != nil {
		err = p.until(c.ReadyAt)
	} else {
		err = p.readyLine()
	}
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// run starts the program and waits for it on a thread of its own: Linux tells a child of
// its parent's end when that thread ends.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	close(p.exited)
}

// Adopt measures a process that somebody else started, and ends.
func Adopt(name string, pid int) *Process { return &Process{Name: name, pid: pid} }

// Environment is this process's without what configures a Busbar.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BUSBAR_") || strings.HasPrefix(v, "OTEL_") || strings.HasPrefix(v, "GOMEMLIMIT=") || strings.HasPrefix(v, "GOGC=")
	})
}

func (p *Process) readyLine() error {
	line := make(chan string, 1)
	go func() {
		out := bufio.NewReader(p.stdout)
		text, _ := out.ReadString('\n')
		line <- text
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case text := <-line:
		_, facts, found := strings.Cut(text, " is ready:")
		if !found {
			return fmt.Errorf("%s printed %q for its ready line%s", p.Name, text, p.end())
		}
		for _, m := range said.FindAllStringSubmatch(facts, -1) {
			p.Ready[m[1]] = m[2]
		}
		return nil
	case <-time.After(readyTime):
		return fmt.Errorf("%s is not ready after %v%s", p.Name, readyTime, p.end())
	}
}

// until waits for a program that says nothing.
func (p *Process) until(ready func() error) error {
	for deadline := time.Now().Add(readyTime); ; time.Sleep(askEvery) {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %w%s", p.Name, err, p.end())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w%s", p.Name, readyTime, err, p.end())
		}
	}
}

// end is the last of what a program logged.
func (p *Process) end() string {
	data, err := os.ReadFile(p.log)
	if err != nil || len(data) == 0 {
		return ""
	}
	return "\n" + string(data[max(0, len(data)-1500):])
}

// Stop ends the program in its own way, or kills it.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { _ = p.stdout.Close() }()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopTime):
		p.kill()
		return fmt.Errorf("%s did not end in %v%s", p.Name, stopTime, p.end())
	}
}

func (p *Process) kill() {
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.exited
}

// Used is the processor time of a process and all its children so far, those that have
// ended included.
func (p *Process) Used() (time.Duration, error) {
	var used time.Duration
	all, err := p.tree()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		used += s.used
	}
	return used, nil
}

// Memory is how much memory of its own a process has in use, in bytes, with its children.
func (p *Process) Memory() (int64, error) {
	all, err := p.tree()
	if err != nil {
		return 0, err
	}
	var bytes int64
	for i, s := range all {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.pid))
		if err != nil && i > 0 {
			continue // a child that has ended, such as one of Postgres
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) == 3 && (f[0] == "Private_Dirty:" || f[0] == "Private_Clean:") {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					return 0, err
				}
				bytes += kib << 10
			}
		}
	}
	return bytes, nil
}

type stat struct {
	pid  int
	used time.Duration
}

// tree is the process and those below it.
func (p *Process) tree() ([]stat, error) {
	own, err := read(p.pid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", p.Name, err, p.end())
	}
	all := []stat{own}
	for i := 0; i < len(all); i++ {
		// Children are listed with the thread that started them.
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i].pid))
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			for _, child := range strings.Fields(string(children)) {
				pid, err := strconv.Atoi(child)
				if err != nil {
					return nil, err
				}
				s, err := read(pid)
				if err != nil {
					continue // it has ended, and counts with its parent
				}
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// read reads /proc/PID/stat: the fields after the name, which may hold anything.
func read(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	if len(f) < 15 || f[0] == "Z" {
		return stat{}, fmt.Errorf("process %d has ended", pid)
	}
	s := stat{pid: pid}
	// Fields 14 to 17 of the manual: the times of the process, and of its children that
	// it has waited for.
	for _, text := range f[11:15] {
		n, failed := strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, failed)
		s.used += time.Duration(n) * tick
	}
	return s, err
}

// Self is the processor time of this process.
func Self() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
