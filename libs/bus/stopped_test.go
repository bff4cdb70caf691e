package bus_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// stoppableCaller is the environment variable with which the test binary starts itself as a caller.
const stoppableCaller = "BUSBAR_TEST_CALLER"

// callAndPrint is that caller: it makes one call and prints how it ended.
func callAndPrint(url string) {
	conn, err := bus.Connect(context.Background(), bus.Config{URL: url})
	if err != nil {
		fmt.Println("connect:", err)
		return
	}
	defer conn.Close()
	caller, err := bus.NewCaller(conn)
	if err != nil {
		fmt.Println("caller:", err)
		return
	}
	_, err = caller.Call(context.Background(), "svc", toolCall(`{}`), nil)
	if err != nil {
		fmt.Println(fault.From(err).Reason)
		return
	}
	fmt.Println("answered", conn.NATS().Stats().Reconnects)
}

// A process that was itself suspended must not mistake its own silence for the service's: the
// answer is waiting in the socket.
func TestCallSurvivesStoppedCaller(t *testing.T) {
	t.Parallel()
	survivesStop(t, bustest.Server(t))
}

// survivesStop suspends a process that waits for a call, for longer than any silence after which it
// gives up a service or its NATS server.
func survivesStop(t *testing.T, url string) {
	t.Helper()
	started, release := make(chan struct{}), make(chan struct{})
	handle(t, url, func(ctx context.Context, _ *busv1.Request, _ *bus.Responder) (proto.Message, error) {
		close(started)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &busv1.Result{Json: []byte(`{}`)}, nil
	})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stoppableCaller+"="+url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(t, "the call runs", started)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(1500 * time.Millisecond) // twice MaxSilence
	close(release)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if got := strings.TrimSpace(line); got != "answered 0" {
		t.Errorf("the call ended as %q; it was to be answered without another connection", got)
	}
}
