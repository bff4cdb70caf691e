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

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A call with a key whose instance was silent for too long is not cancelled: it has begun, and its
// answer is kept for a repetition.
func TestStalledInstanceKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	process, caller := stoppable(t, bustest.Server(t))
	var ran bus.Ran
	lost := func(key string) (id string, err error) {
		req := effect("slow")
		req.IdempotencyKey = key
		begun, ended := make(chan string, 1), make(chan error, 1)
		go func() {
			_, err := caller.CallWith(t.Context(), "svc", req, bus.Options{Ran: &ran, OnFrame: func(f *busv1.Frame) {
				if f.GetProgress().GetProgress() == 1 {
					begun <- req.Id
				}
			}})
			ended <- err
		}()
		id = await(t, "the call has begun", begun)
		stop(t, process)
		return id, await(t, "the call ends", ended)
	}
	id, err := lost("k0")
	for n := 1; n < 5 && err == nil; n++ { // it ended before a busy machine had suspended it
		signal(t, process, syscall.SIGCONT)
		id, err = lost(fmt.Sprint("k", n))
	}
	fails(t, err, fault.PeerLost, fault.Unknown)
	signal(t, process, syscall.SIGCONT)
	bustest.Eventually(t, "the instance has the answer", func() bool {
		state, frame, err := caller.Outcome(t.Context(), "svc", ran.Instance, id)
		if err != nil || state == bus.CallForgotten || state == bus.CallNeverBegun {
			t.Fatalf("the instance says %d, %v", state, err)
		}
		return state == bus.CallEnded && frame.GetResult() != nil
	})
}

// An instance that does not know the question answers so, which ends the silence.
func TestOutcomeIsNotKnownThere(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	nc := raw(t, url)
	if _, err := nc.Subscribe("mcp.to.svc.old.busbar.outcome", func(m *nats.Msg) {
		data, err := proto.Marshal(errorFrame(&busv1.Error{Reason: "invalid_params"}))
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("mcp.to.svc.silent.busbar.outcome", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	caller := newCaller(t, url)
	bustest.Eventually(t, "the instance says so", func() bool {
		state, _, err := caller.Outcome(t.Context(), "svc", "old", "call")
		return state == bus.CallUnknown && err != nil
	})
	if state, _, err := caller.Outcome(t.Context(), "svc", "silent", "call"); state != bus.CallUnknown || err != nil {
		t.Errorf("one that is silent: %d, %v", state, err)
	}
}

// stoppable starts an instance of "svc" that can be suspended, and returns its process and a
// caller.
func stoppable(t *testing.T, url string) (*os.Process, *edges.Caller) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout = append(os.Environ(), stoppableService+"="+url), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	caller := newCaller(t, url)
	bustest.Eventually(t, "the instance takes calls", func() bool { return caller.Check(t.Context(), "svc") == nil })
	return cmd.Process, caller
}

// stop suspends a process, and returns once it is suspended.
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

// stoppableService is the environment variable with which the test binary starts itself as an
// instance of "svc".
const stoppableService = "BUSBAR_TEST_SERVICE"

// serveUntilKilled is that instance.
func serveUntilKilled(url string) {
	conn, err := bus.Connect(context.Background(), bus.Config{URL: url})
	if err != nil {
		fmt.Println("connect:", err)
		return
	}
	if _, err = bus.Serve(context.Background(), conn, bus.ServerConfig{Service: "svc", Handler: quickOrSlow}); err != nil {
		fmt.Println("serve:", err)
		return
	}
	select {}
}

// quickOrSlow reports that "slow" has begun, and ends it after a second of the process's own time.
func quickOrSlow(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
	for i := 0; req.Name == "slow" && i < 20; i++ {
		out.Progress(&busv1.Progress{Progress: float64(i)})
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &busv1.Result{Json: []byte(`{}`)}, nil
}
