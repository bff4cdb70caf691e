package bus_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// An instance that is connected but silent keeps its call, which nobody else can have, for
// 0.9 s, and on a machine that is slow itself for three.
func TestStalledInstance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then   func(t *testing.T, p *os.Process)
		reason fault.Reason
	}{
		"it goes on":  {func(t *testing.T, p *os.Process) { <-time.After(bus.MaxSilence / 2); signal(t, p, syscall.SIGCONT) }, ""},
		"it ends":     {func(t *testing.T, p *os.Process) { signal(t, p, syscall.SIGKILL) }, fault.PeerLost},
		"it stays so": {func(*testing.T, *os.Process) {}, fault.PeerLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env, cmd.Stdout = append(os.Environ(), stoppableService+"="+url), os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			caller := newCaller(t, url)
			taken := func() bool { return caller.Check(t.Context(), "svc") == nil }
			bustest.Eventually(t, "the instance takes calls", taken)

			call := func() (took time.Duration) {
				stopped, ended := make(chan struct{}), make(chan error, 1)
				permits := 0
				begun := time.Now()
				go func() {
					_, err := caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{Permit: func(context.Context, string) error {
						if permits++; permits == 1 {
							stop(t, cmd.Process)
							begun = time.Now()
							close(stopped)
						}
						return nil
					}})
					ended <- err
				}()
				await(t, "the instance is stopped", stopped)
				c.then(t, cmd.Process)
				err := await(t, "the call ends", ended)
				took = time.Since(begun)
				// One that ends before its permit has left never runs, which is certain.
				before := name == "it ends" && fault.Is(err, fault.Unavailable) && fault.From(err).Executed == fault.No
				if c.reason == "" && err != nil || c.reason != "" && !fault.Is(err, c.reason) && !before {
					t.Errorf("after %v: %v", took, err)
				}
				if permits != 1 {
					t.Errorf("asked %d times", permits)
				}
				return took
			}
			switch took := call(); name {
			case "it ends":
				if took > 2*bus.MaxSilence+bustest.Promptly {
					t.Errorf("noticed after %v", took)
				}
			case "it stays so":
				if took < bus.MaxSilence {
					t.Errorf("given up after %v", took)
				}
				// A machine that others use may be slow meanwhile, and its caller patient.
				bustest.Eventually(t, "one is given up within a second", func() bool {
					if took < time.Second {
						return true
					}
					signal(t, cmd.Process, syscall.SIGCONT)
					bustest.Eventually(t, "the instance takes calls again", taken)
					took = call()
					return false
				})
			}
		})
	}
}

// stop returns when a process does nothing any more.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	signal(t, p, syscall.SIGSTOP)
	bustest.Eventually(t, "the process is stopped", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		return strings.Contains(string(stat), ") T ")
	})
}

func signal(t *testing.T, p *os.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Error(err)
	}
}
