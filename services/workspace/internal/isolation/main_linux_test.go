package isolation_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/workspace/internal/isolation"
)

// The test binary itself also makes the escape attempts.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "attempt" {
		for _, name := range os.Args[1:] {
			if err := attempts[name].do(); err != nil {
				fmt.Println(name+":", err)
			} else {
				fmt.Println("OUT: " + name)
			}
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// ways are the ways that work on this machine. A machine with user namespaces has at least one, or
// this package is broken; on others there is nothing to test, because commands do not run.
func ways(t *testing.T) (all []isolation.Way) {
	t.Helper()
	probe := exec.CommandContext(t.Context(), "/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	possible := probe.Run()
	abi, _ := landlock.LandlockGetABIVersion()
	_, missing := exec.LookPath("bwrap")
	for w, there := range map[isolation.Way]bool{isolation.Bubblewrap: missing == nil && possible == nil, isolation.Namespaces: abi >= 2 && possible == nil} {
		_, err := isolation.Find(t.Context(), w)
		switch {
		case err == nil:
			all = append(all, w)
		case there:
			t.Fatalf("%s should work here: %v", w, err)
		default:
			t.Logf("not tested here: %v", err)
		}
	}
	if len(all) == 0 {
		t.Skip("neither bubblewrap nor namespaces work here")
	}
	return all
}

// each runs a test for each way.
func each(t *testing.T, f func(t *testing.T, w isolation.Way)) {
	t.Helper()
	t.Parallel()
	for _, w := range ways(t) {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

// workspace is a directory with guarded files and the program that makes the attempts.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".busbar/workspace.yaml": "ci:\n", ".git/config": "[core]\n", "sub/.git/config": "[core]\n"} {
		write(t, filepath.Join(dir, name), text)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(exe, filepath.Join(dir, "attempt")) != nil {
		data, err := os.ReadFile(exe)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "attempt"), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// usual are limits that no test here reaches by accident, even if other tests write to the same
// disk meanwhile.
var usual = isolation.Limits{Time: 2 * time.Minute, CPU: time.Minute, Memory: 1 << 30, Processes: 300, Disk: 4 << 30}

func run(t *testing.T, ctx context.Context, w isolation.Way, dir, line string, limits isolation.Limits, env ...string) (isolation.Result, string) {
	t.Helper()
	var out strings.Builder
	r, err := isolation.Run(ctx, w, isolation.Command{Line: line, Dir: dir, Inside: "/workspace/main", Guarded: []string{".busbar", ".git", "sub/.git"}, Env: env, Limits: limits}, &out)
	if err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	return r, out.String()
}

// plainly runs the command without any isolation.
func plainly(t *testing.T, dir, line string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, _ := cmd.CombinedOutput()
	return string(out)
}
