package stdio_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door/stdio"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// client is a client that started a server as its child.
type client struct {
	t   *testing.T
	bus string
	svc *edgetest.Service
	in  *io.PipeWriter
	// out are the lines of the server, closed at their end.
	out    chan edgetest.Message
	stdout *io.PipeReader
	stop   context.CancelFunc
	done   chan error // of Run
}

func start(t *testing.T, change func(*stdio.Config)) *client {
	t.Helper()
	c := launch(t, change)
	c.out = make(chan edgetest.Message, 4096)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.out)
		for lines := bufio.NewReader(c.stdout); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				if len(line) > 0 {
					t.Errorf("output ends within a line: %q", line)
				}
				return
			}
			c.out <- edgetest.Read(t, line) // fails unless the line is one message
		}
	}()
	t.Cleanup(func() {
		c.end()
		_ = c.stdout.Close()
		<-read
	})
	return c
}

// launch is start, but without a reader of the output.
func launch(t *testing.T, change func(*stdio.Config)) *client {
	t.Helper()
	c := &client{t: t, bus: bustest.Server(t), svc: edgetest.New("svc"), done: make(chan error, 1)}
	c.svc.Start(t, bustest.Connect(t, c.bus))
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Connect(t, c.bus), edge.Config{Version: "1", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	cfg := stdio.Config{Server: e.Server(), In: stdin, Out: out}
	if change != nil {
		change(&cfg)
	}
	c.in, c.stdout = in, stdout
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		err := stdio.New(cfg).Run(running)
		_ = out.Close()
		c.done <- err
	}()
	t.Cleanup(func() { stop(); _ = in.Close() })
	return c
}

// end closes the input and waits for Run.
func (c *client) end() {
	_ = c.in.Close()
	c.stop()
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := c.in.Write([]byte(l + "\n")); err != nil {
			c.t.Fatal(err)
		}
	}
}

// await takes the next message.
func (c *client) await() edgetest.Message {
	c.t.Helper()
	m, ok := receive(c.t, "a message of the server", c.out)
	if !ok {
		c.t.Fatal("the output ended")
	}
	return m
}

// ask sends a request and takes its answer, which must be the next message.
func (c *client) ask(line string) edgetest.Message {
	c.t.Helper()
	c.send(line)
	return c.await()
}

// lives requires that a good call is answered.
func (c *client) lives() {
	c.t.Helper()
	if m := c.ask(edgetest.Call(`"alive"`, "echo", "{}")); m.Text() != "{}" || string(m.ID) != `"alive"` {
		c.t.Fatalf("answer %+v", m)
	}
}

// finished takes Run's result.
func (c *client) finished() error {
	c.t.Helper()
	err, _ := receive(c.t, "the end of Run", c.done)
	return err
}

func receive[V any](t *testing.T, what string, c <-chan V) (V, bool) {
	t.Helper()
	select {
	case v, ok := <-c:
		return v, ok
	case <-time.After(bustest.Patience):
		t.Fatalf("did not happen in %v: %s", bustest.Patience, what)
		panic("unreachable")
	}
}

var errBroken = errors.New("the pipe is broken")
