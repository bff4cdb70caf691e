package isolation

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Every program that links this package is the launcher, too. So a service finds it in its own file,
// whether that is bin/workspace, busbar dev or a test.
func init() {
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == launcher {
		launcherMain()
	}
}

// launcherMain is the first process of a command's namespaces. It prepares the command's view, gives up
// its rights, starts the command, and ends when the command ends or the service hangs up. When it ends,
// the kernel ends everything else in the namespaces.
func launcherMain() {
	// Only children of the thread that gives up rights lack them, so all is done in this one.
	runtime.LockOSThread()
	// The command gets no file descriptor of this process.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	// A handler, unlike an ignored signal, is not inherited.
	signal.Notify(make(chan os.Signal, 1))

	tell, answer := bufio.NewReader(os.NewFile(3, "tell")), os.NewFile(4, "answer")
	var p plan
	var once sync.Once
	end := func(v verdict) {
		once.Do(func() {
			if p.Way == None {
				killChildren()
			}
			encoded, _ := json.Marshal(v)
			_, _ = answer.Write(encoded)
			os.Exit(0)
		})
	}
	line, err := tell.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p)
	}
	if err == nil {
		err = p.prepare()
	}
	var child int
	if err == nil {
		child, err = p.begin()
	}
	if err != nil {
		end(verdict{Failed: err.Error()})
	}
	go func() {
		_, _ = io.Copy(io.Discard, tell)
		end(verdict{Result: Result{Exit: -1, Stopped: StoppedCancelled}})
	}()
	if p.Way != None {
		go p.watch(func(why string) { end(verdict{Result: Result{Exit: -1, Stopped: why}}) })
	}
	end(verdict{Result: reap(child)})
}

// prepare makes the command's view of the machine.
func (p plan) prepare() error {
	switch p.Way {
	case None:
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case Namespaces:
		if err := p.view(); err != nil {
			return err
		}
	case Bubblewrap:
		// This user may not change the mounts that bwrap made, but may change a copy of them.
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
	}
	return p.furnish()
}

// begin starts the command.
func (p plan) begin() (pid int, err error) {
	if err := p.limit(); err != nil {
		return 0, err
	}
	dir, base := p.Inside, []string{"HOME=" + homeDir, "TMPDIR=/tmp"}
	if p.Way == None {
		dir, base = p.Dir, nil
	} else if err := p.confine(); err != nil {
		return 0, err
	}
	env := environment(append(append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, base...), p.Env...))
	return syscall.ForkExec("/bin/sh", []string{"sh", "-c", p.Line}, &syscall.ProcAttr{
		Dir: dir, Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// environment keeps the last value of each variable.
func environment(all []string) (env []string) {
	at := map[string]int{}
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			env[i] = e
			continue
		}
		at[name] = len(env)
		env = append(env, e)
	}
	return env
}

// reap waits for the command, and collects other processes that end meanwhile.
func reap(child int) Result {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return Result{Exit: -1}
		case pid != child:
			continue
		}
		r := Result{Exit: status.ExitStatus(), CPU: spent()}
		if status.Signaled() {
			r.Exit, r.Signal = -1, unix.SignalName(status.Signal())
		}
		return r
	}
}

func spent() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// killChildren ends everything that this process has started, if no namespace does. A process that loses
// its parent becomes a child of this process.
func killChildren() {
	for range 1000 {
		var all []string
		threads, _ := filepath.Glob("/proc/self/task/*/children")
		for _, t := range threads {
			some, _ := os.ReadFile(t)
			all = append(all, strings.Fields(string(some))...)
		}
		if len(all) == 0 {
			return
		}
		for _, field := range all {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = unix.Kill(-pid, unix.SIGKILL)
				_ = unix.Kill(pid, unix.SIGKILL)
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
		time.Sleep(time.Millisecond) // the children of killed processes become ours
	}
}
