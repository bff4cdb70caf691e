package isolation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// plan is the service's message to the launcher, and verdict the launcher's answer.
type plan struct {
	Way Way
	Command
	// Shown lists what the command may read.
	Shown []shown
}

type verdict struct {
	Result
	// Failed says why the command did not run.
	Failed string
}

// killTime is how long the launcher may take to end everything before it is killed.
const killTime = 5 * time.Second

// Run runs a command, copies its output to out, and returns when it and everything it started have ended.
// An error means that the command did not run. When ctx ends, everything is killed.
func Run(ctx context.Context, way Way, c Command, out io.Writer) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, c.Time)
	defer cancel()
	if way == None {
		home, err := os.MkdirTemp("", "busbar-ci-")
		if err != nil {
			return Result{}, err
		}
		defer func() { _ = os.RemoveAll(home) }()
		c.Env = append([]string{"HOME=" + home, "TMPDIR=" + home}, c.Env...)
	}
	head := &head{to: out, left: cmp.Or(c.Output, MaxOutput), full: cancel}
	v, err := launch(limited, plan{way, c, c.shown()}, head)
	switch {
	case ctx.Err() != nil:
		return Result{Exit: -1, Stopped: StoppedCancelled}, nil
	case head.left < 0:
		return Result{Exit: -1, Stopped: StoppedOutput}, nil
	case limited.Err() != nil:
		return Result{Exit: -1, Stopped: StoppedTime}, nil
	case v.Failed != "":
		return Result{}, errors.New(v.Failed)
	case err != nil:
		return Result{}, fmt.Errorf("%w: %s", err, head.kept())
	}
	return v.Result, nil
}

// launch starts the launcher, and waits for its verdict.
func launch(ctx context.Context, p plan, out io.Writer) (v verdict, err error) {
	tell, toldBy, err := os.Pipe()
	if err != nil {
		return v, err
	}
	defer func() { _ = tell.Close() }()
	// As long as toldBy is open, this process lives and wants the command to run.
	hangUp := sync.OnceFunc(func() { _ = toldBy.Close() })
	defer hangUp()
	answer, answerBy, err := os.Pipe()
	if err != nil {
		return v, err
	}
	defer func() { _, _ = answer.Close(), answerBy.Close() }()
	cmd, err := p.start(ctx)
	if err != nil {
		return v, err
	}
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{tell, answerBy}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { hangUp(); return nil }
	cmd.WaitDelay = killTime
	if err := cmd.Start(); err != nil {
		return v, err
	}
	_, _ = tell.Close(), answerBy.Close()
	// The launcher does nothing before it has read the plan.
	g := newGroup(p.Processes)
	defer g.remove()
	g.add(cmd.Process.Pid)
	encoded, err := json.Marshal(p)
	if err == nil {
		_, err = toldBy.Write(append(encoded, '\n'))
	}
	if err != nil {
		hangUp()
	}
	said, _ := io.ReadAll(io.LimitReader(answer, 64<<10))
	ended := cmd.Wait()
	if json.Unmarshal(said, &v) == nil {
		if v.Stopped == "" && v.Failed == "" && g.full() {
			v.Exit, v.Signal, v.Stopped = -1, "", StoppedProcesses
		}
		return v, nil
	}
	return v, errors.Join(errors.New("the command did not run, or its isolation failed"), err, ended)
}

// start returns the command that starts the launcher. p is updated.
func (p plan) start(ctx context.Context) (*exec.Cmd, error) {
	if p.Way == Bubblewrap {
		return p.bubblewrap(ctx)
	}
	// This path is this program, even if its file was replaced meanwhile.
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{launcher}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.Way == Namespaces {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getegid(), Size: 1}}
		// The launcher is not root in there, and gives these up before the command runs.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_PTRACE}
	}
	return cmd, nil
}

// user is the user id of commands in their namespace.
const user = 1000

// bubblewrap is like start, but bwrap makes the namespaces.
func (p plan) bubblewrap(ctx context.Context) (*exec.Cmd, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("the program bwrap is missing; install the package bubblewrap")
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--unshare-all", "--unshare-user", "--uid", fmt.Sprint(user), "--gid", fmt.Sprint(user), "--hostname", hostname, "--die-with-parent", "--new-session", "--as-pid-1",
		"--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_SYS_PTRACE",
		"--dir", "/etc",
	}
	for _, s := range p.Shown {
		args = append(args, "--ro-bind", s.From, s.To)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", fmt.Sprint(p.Disk), "--tmpfs", "/tmp",
		"--bind", p.Dir, p.Inside, "--ro-bind", exe, launcherPath, "--", launcherPath)
	return exec.CommandContext(ctx, bwrap, args...), nil
}

// systemPaths lists the paths that programs need to run at all.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
}

// shown is a path of this machine and the path under which commands see it.
type shown struct{ From, To string }

// shown returns the paths that commands read, each after the path that contains it.
func (c Command) shown() (all []shown) {
	for _, path := range append(systemPaths[:len(systemPaths):len(systemPaths)], c.ReadOnly...) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			all = append(all, shown{real, path})
		}
	}
	return all
}

// Find returns the way to isolate commands on this machine: the wanted one if it works, or for Auto the
// first that works.
func Find(ctx context.Context, wanted Way) (Way, error) {
	ways := []Way{wanted}
	switch wanted {
	case None:
		return None, nil
	case Auto:
		ways = []Way{Bubblewrap, Namespaces}
	}
	var why []string
	for _, way := range ways {
		err := way.try(ctx)
		if err == nil {
			return way, nil
		}
		why = append(why, fmt.Sprintf("%s: %v", way, err))
	}
	return "", errors.New(strings.Join(why, "; "))
}

// tryTime is the time limit for a trial of a way.
const tryTime = 20 * time.Second

// try runs a command that does nothing.
func (w Way) try(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "busbar-ci-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	r, err := Run(ctx, w, Command{Line: ":", Dir: dir, Inside: "/workspace/try", Limits: Limits{Time: tryTime, CPU: tryTime, Memory: 1 << 30, Processes: 100, Disk: 16 << 20}}, io.Discard)
	if err == nil && (r.Exit != 0 || r.Stopped != "") {
		err = fmt.Errorf("a command that does nothing ended with %d %s%s", r.Exit, r.Signal, r.Stopped)
	}
	return err
}

// head passes its input on, up to a limit, and keeps the beginning, where an error message is.
type head struct {
	to    io.Writer
	begin []byte
	left  int
	full  func()
}

func (h *head) Write(b []byte) (int, error) {
	const most = 500
	h.begin = append(h.begin, b[:min(len(b), max(0, most-len(h.begin)))]...)
	if h.left -= len(b); h.left < 0 {
		h.full()
		return len(b), nil // nobody reads it
	}
	return h.to.Write(b)
}

func (h *head) kept() string { return strings.TrimSpace(strings.ToValidUTF8(string(h.begin), "")) }
