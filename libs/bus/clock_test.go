package bus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// skewed joins the bus with a clock that is wrong.
func skewed(t *testing.T, url string, off time.Duration) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "skewed", Logger: bustest.Logger(t), Now: func() time.Time { return time.Now().Add(off) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Calls run even if the clocks of edges and services differ, and the edge knows the error of its
// own clock.
func TestM18ClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 31 * time.Second, -31 * time.Second, 2 * time.Minute, -2 * time.Minute} {
		for _, at := range []string{"edge", "service"} {
			t.Run(at+" "+off.String(), func(t *testing.T) {
				t.Parallel()
				url := bustest.Server(t)
				bustest.Connect(t, url) // makes the buckets
				edge, service := off, time.Duration(0)
				if at == "service" {
					edge, service = 0, off
				}
				var runs atomic.Int32
				conn := skewed(t, url, service)
				s, err := bus.Serve(t.Context(), conn, bus.ServerConfig{Service: "svc", Handler: counted(&runs)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Drain(context.Background()) })
				announce(t, conn, "svc", s.Instance(), "1.0.0", &busv1.Catalogue{Service: "svc"})
				edgeConn := skewed(t, url, edge)
				seen := watch(t, edgeConn)
				caller, err := bus.NewCaller(edgeConn)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = caller.Close() })
				for _, req := range []*busv1.Request{toolCall(`{}`), effect("x")} {
					if _, err := caller.Call(within(t, bustest.Patience), "svc", req, nil); err != nil {
						t.Error(err)
					}
				}
				if runs.Load() != 2 {
					t.Errorf("%d calls ran", runs.Load())
				}
				// Heartbeats come every 5 s. A late one counts until the next one comes.
				want, got := edge-service, time.Duration(0)
				defer func() {
					if t.Failed() {
						t.Logf("the edge takes its clock to be off by %v", got)
					}
				}()
				bustest.Eventually(t, "the edge knows that its clock is off by "+want.String(), func() (known bool) {
					got, known = seen.ClockOffset()
					return known && (got-want).Abs() <= 3*time.Second
				})
			})
		}
	}
}
