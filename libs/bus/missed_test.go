package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// through is a connection whose network the test can cut.
func through(t *testing.T, url string) (*bustest.Network, *bus.Conn) {
	t.Helper()
	n := &bustest.Network{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "test", Logger: bustest.Logger(t), Dialer: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return n, conn
}

// swap makes a connection reconnect to its server.
func swap(t *testing.T, n *bustest.Network, conn *bus.Conn) {
	t.Helper()
	n.Cut()
	bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
	n.Mend()
}

// If an answer is lost while the caller or the instance moves to another server, the caller asks
// for it: the call has run once, and the caller receives its result.
func TestAnswersOfALostConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// lose happens while the call runs, after once its handler has ended.
		lose, after func(t *testing.T, n *bustest.Network, conn *bus.Conn)
		caller      bool
	}{
		"the caller's": {caller: true, lose: func(t *testing.T, n *bustest.Network, conn *bus.Conn) {
			n.Cut()
			bustest.Eventually(t, "the loss is noticed", func() bool { return !conn.Connected() })
		}, after: func(_ *testing.T, n *bustest.Network, _ *bus.Conn) { n.Mend() }},
		"the instance's, noticed":          {lose: swap},
		"the instance's, noticed too late": {lose: func(_ *testing.T, n *bustest.Network, _ *bus.Conn) { n.Mute() }, after: swap},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			callers, callerConn := through(t, url)
			instances, instanceConn := through(t, url)
			n, conn := instances, instanceConn
			if c.caller {
				n, conn = callers, callerConn
			}
			var runs atomic.Int32
			running, release, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
			s, err := bus.Serve(t.Context(), instanceConn, bus.ServerConfig{
				Service: "svc",
				Handler: func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
					run := runs.Add(1)
					out.Progress(&busv1.Progress{Progress: 1})
					running <- struct{}{}
					<-release
					out.Progress(&busv1.Progress{Progress: 2})
					return &busv1.Result{Json: fmt.Appendf(nil, `{"run":%d}`, run)}, nil
				},
				Observe: func(context.Context, *busv1.Request, proto.Message, *fault.Error, time.Duration) { ended <- struct{}{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Drain(context.Background()) })
			caller := callerOn(t, callerConn)
			rounds(t, conn, func() error {
				want := runs.Load() + 1
				var frame *busv1.Frame
				over := make(chan error, 1)
				go func() {
					var err error
					frame, err = caller.CallWith(t.Context(), "svc", effect("x"), bus.Options{})
					over <- err
				}()
				select {
				case <-running:
				case err := <-over: // NATS does not know yet that the instance is back
					return err
				}
				c.lose(t, n, conn)
				release <- struct{}{}
				await(t, "the call has run", ended)
				if c.after != nil {
					if c.caller {
						_ = instanceConn.Flush(t.Context()) // its answer has gone
					}
					c.after(t, n, conn)
				}
				err := await(t, "the call ends", over)
				if got := runs.Load(); got != want {
					t.Fatalf("the call ran %d times", got-want+1)
				}
				if said := fmt.Sprintf(`{"run":%d}`, want); err == nil && string(frame.GetResult().GetJson()) != said {
					return errors.New("another answer: " + string(frame.GetResult().GetJson()))
				}
				return err
			})
		})
	}
}
