package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// process is one program of ours that a test runs. It is killed at the test's
// end, and its standard error shown if the test failed.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr bustest.Log
	exited chan struct{}

	// extra is the output of a server after its ready line; drained is closed at its end. Nil
	// before awaitReady.
	extra   bustest.Log
	drained chan struct{}
}

// start runs a program with its standard streams connected to the test.
func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	return startWith(t, nil, program, args...)
}

// startWith has more in the environment.
func startWith(t testing.TB, env []string, program string, args ...string) *process {
	t.Helper()
	args = append(slices.Clip(args), proof(program, args)...)
	p := &process{t: t, cmd: exec.Command(filepath.Join(bin, program), args...), exited: make(chan struct{})}
	diesWithUs(p.cmd)
	p.cmd.Env = append(environment(), env...)
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: Wait closes StdoutPipe before all of it is read.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.cmd.Stdout = r, w
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	_ = w.Close()
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if p.drained != nil {
			<-p.drained
			if more := p.extra.String(); more != "" {
				t.Errorf("%s %s wrote to standard output: %q", program, strings.Join(args, " "), more)
			}
		}
		_ = r.Close()
		if t.Failed() {
			t.Logf("standard error of %s %s:\n%s", program, strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

// environment is ours without settings of Busbar's that a developer may have.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BUSBAR_") {
			env = append(env, v)
		}
	}
	return env
}

// signal sends a signal. A process that is gone already does not mind.
func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s)
}

// kill ends the process without its doing, and waits.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// wait returns the exit code, or -1 after a signal, and fails the test if the process has not ended
// in time.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within + slack):
		// The stacks, with its standard error, show what it waits for.
		p.signal(syscall.SIGQUIT)
		<-p.exited
		p.t.Fatalf("%s did not exit in %v", p.cmd.Args, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// ready has the values of the line that a server prints when it is ready.
type ready struct{ mcp, grpc, metrics, nats, data, oauth string }

var readyLine = regexp.MustCompile(`^busbar \S+ is ready:(?: mcp=(\S+))?(?: grpc=(\S+))?(?: metrics=(\S+))? nats=(\S+)(?: data=(\S+))?(?: oauth=(\S+))?$`)

// awaitReady reads the ready line. Anything else on standard output fails the
// test.
func (p *process) awaitReady() ready {
	p.t.Helper()
	lines := make(chan string, 1)
	p.drained = make(chan struct{})
	go func() {
		defer close(p.drained)
		out := bufio.NewReader(p.stdout)
		line, _ := out.ReadString('\n')
		lines <- strings.TrimSuffix(line, "\n")
		_, _ = io.Copy(&p.extra, out)
	}()
	select {
	case line := <-lines:
		m := readyLine.FindStringSubmatch(line)
		if m == nil {
			p.t.Fatalf("%s printed %q for its ready line\n%s", p.cmd.Args, line, p.stderr.String())
		}
		if m[5] != "" {
			f := &bustest.Fleet{URL: m[4], Dir: secret.Dir(filepath.Join(m[5], "users"))}
			fleets.Store(m[4], f)
			go func() {
				<-p.exited
				fleets.CompareAndDelete(m[4], f) // another test's bus may get its port
			}()
		}
		return ready{mcp: m[1], grpc: m[2], metrics: m[3], nats: m[4], data: m[5], oauth: m[6]}
	case <-time.After(bustest.Patience):
		p.t.Fatalf("%s is not ready after %v\n%s", p.cmd.Args, bustest.Patience, p.stderr.String())
	}
	return ready{}
}

// startDev runs "busbar dev" on free ports.
func startDev(t testing.TB, args ...string) (*process, ready) {
	t.Helper()
	p := start(t, "busbar", append([]string{"dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, args...)...)
	return p, p.awaitReady()
}

// startEdge runs "busbar edge" on a bus.
func startEdge(t testing.TB, nats string, args ...string) (*process, ready) {
	t.Helper()
	p := start(t, "busbar", append([]string{"edge", "--listen", "127.0.0.1:0", "--nats", nats, "--data-dir", t.TempDir()}, args...)...)
	return p, p.awaitReady()
}
