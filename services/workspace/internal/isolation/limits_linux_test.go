package isolation_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/workspace/internal/isolation"
)

// Commands have what they need.
func TestCommand(t *testing.T) {
	each(t, func(t *testing.T, w isolation.Way) {
		dir := workspace(t)
		r, out := run(t, t.Context(), w, dir, `pwd; echo text > file; mkdir -p a/b; mv file a/b/; cat a/b/file; echo err >&2; echo tmp > /tmp/x; cat /tmp/x; echo home > ~/x; ls -a /; env | sort; cat /etc/hosts | head -1; true </dev/null >/dev/null; exit 7`, usual, "LANG=pl_PL.UTF-8", "OWN=1 2")
		if r.Exit != 7 || r.Signal != "" || r.Stopped != "" {
			t.Errorf("%+v", r)
		}
		want := "/workspace/main\ntext\nerr\ntmp\n.\n..\nbin\n"
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s", out)
		}
		if !strings.Contains(out, "HOME=/tmp/home\nLANG=pl_PL.UTF-8\nOWN=1 2\nPATH=/usr/local/bin:/usr/bin:/bin\nPWD=/workspace/main\nTMPDIR=/tmp\n127.0.0.1 localhost") {
			t.Errorf("the environment is another: %s", out)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "a/b/file")); err != nil || string(data) != "text\n" {
			t.Errorf("%q %v", data, err)
		}
		if r, _ := run(t, t.Context(), w, dir, "kill -SEGV $$", usual); r.Signal != "SIGSEGV" || r.Exit != -1 {
			t.Errorf("%+v", r)
		}
		// A command that tries to kill the first process of the namespace ends only itself.
		if r, out := run(t, t.Context(), w, dir, "kill -9 1; kill -15 1; kill -2 1; kill -3 1; kill -11 1; echo here", usual); r.Exit != 0 || !strings.Contains(out, "here") {
			t.Errorf("%+v %s", r, out)
		}
	})
}

// A service may run at a lower priority than its commands.
func TestServiceOfLowPriority(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "nice", "-n", "15", os.Args[0], "-test.run=^TestCommand$").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Each limit stops a command that exceeds it, and the result names the limit.
func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, w isolation.Way) {
		for name, x := range map[string]struct {
			line    string
			limits  isolation.Limits
			stopped string
			exit    int
		}{
			"time":           {"sleep 1000", isolation.Limits{Time: 3 * time.Second}, isolation.StoppedTime, -1},
			"memory":         {`x=0123456789abcdef; while :; do x=$x$x; done`, isolation.Limits{Memory: 64 << 20}, isolation.StoppedMemory, -1},
			"memory in /tmp": {"cat /dev/zero > /tmp/full; sleep 1000", isolation.Limits{Memory: 64 << 20}, isolation.StoppedMemory, -1},
			"processes":      {`i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; wait`, isolation.Limits{Processes: 50}, isolation.StoppedProcesses, -1},
			"a fork bomb":    {`f() { f | f & f; }; f; sleep 1000`, isolation.Limits{Processes: 100}, isolation.StoppedProcesses, -1},
			"/tmp":           {"cat /dev/zero > /tmp/full; sleep 1000", isolation.Limits{Disk: 16 << 20}, isolation.StoppedDisk, -1},
			"a file":         {"dd if=/dev/zero of=big bs=1M seek=4095 count=2; echo; test $(stat -c %s big) -le 4294967296", isolation.Limits{}, "", 0},
			"the disk":       {"i=0; while :; do i=$((i+1)); head -c 8000000 /dev/zero > f$i; [ $i -lt 12 ] || sleep 1000; done", isolation.Limits{Disk: 16 << 20}, isolation.StoppedDisk, -1},
			"output":         {"yes", isolation.Limits{Output: 1 << 20}, isolation.StoppedOutput, -1},
			"processor time": {`while :; do :; done`, isolation.Limits{CPU: time.Second}, "", -1},
		} {
			limits := isolation.Limits{
				Time: or(x.limits.Time, usual.Time), CPU: or(x.limits.CPU, usual.CPU), Memory: or(x.limits.Memory, usual.Memory),
				Processes: or(x.limits.Processes, usual.Processes), Disk: or(x.limits.Disk, usual.Disk), Output: x.limits.Output,
			}
			r, out := run(t, t.Context(), w, workspace(t), x.line, limits)
			if r.Stopped != x.stopped || x.stopped == "" && r.Exit != x.exit {
				t.Errorf("%s: %+v %.300s", name, r, out)
			}
			if name == "processor time" && r.Signal != "SIGXCPU" {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}

// After the end or the cancellation of a command, none of its processes is left, not even one that
// left its group and session.
func TestNothingOutlives(t *testing.T) {
	each(t, func(t *testing.T, w isolation.Way) {
		// A daemon holds the other end of a pipe open while it lives.
		const daemon = "(setsid sh -c 'exec 9>alive; echo > began; exec sleep 1000' >/dev/null 2>&1 </dev/null &) ; until [ -e began ]; do sleep 0.01; done; "
		dir := workspace(t)
		alive := pipe(t, dir)
		if r, out := run(t, t.Context(), w, dir, daemon, usual); r.Exit != 0 {
			t.Fatalf("%+v %s", r, out)
		}
		if !ended(t, alive) {
			t.Error("a daemon outlives its command")
		}

		dir = workspace(t)
		alive = pipe(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan isolation.Result)
		go func() {
			r, _ := run(t, ctx, w, dir, daemon+"sleep 1000", usual)
			done <- r
		}()
		bustest.Eventually(t, "the daemon of a command", func() bool { _, err := os.Stat(filepath.Join(dir, "began")); return err == nil })
		cancel()
		if r := <-done; r.Stopped != isolation.StoppedCancelled {
			t.Errorf("%+v", r)
		}
		if !ended(t, alive) {
			t.Error("a daemon outlives the cancellation")
		}

		// Without isolation the same daemon stays when its parent is killed.
		dir = workspace(t)
		alive = pipe(t, dir)
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.Replace(daemon, "exec 9>", "echo $$ > pid; exec 9>", 1))
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if ended(t, alive) {
			t.Error("the daemon ends by itself, so that its end shows nothing")
		}
		data, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		if err := exec.CommandContext(t.Context(), "kill", "-9", strings.TrimSpace(string(data))).Run(); err != nil {
			t.Error(err)
		}
	})
}

// pipe creates a pipe in a directory, and opens the reading end.
func pipe(t *testing.T, dir string) int {
	t.Helper()
	name := filepath.Join(dir, "alive")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// ended reports whether no process has the other end open.
func ended(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Read(fd, make([]byte, 1))
	if err != nil && err != unix.EAGAIN {
		t.Fatal(err)
	}
	return n == 0 && err == nil
}

// Without isolation a command is ended with its daemons, too; nothing else is promised.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	alive := pipe(t, dir)
	r, out := run(t, t.Context(), isolation.None, dir, "(setsid sh -c 'exec 9>alive; echo > began; exec sleep 1000' &) ; until [ -e began ]; do sleep 0.01; done; exit 4", usual)
	if r.Exit != 4 || !ended(t, alive) {
		t.Errorf("%+v %s", r, out)
	}
}

func or[T comparable](v, usual T) T {
	var zero T
	if v == zero {
		return usual
	}
	return v
}
