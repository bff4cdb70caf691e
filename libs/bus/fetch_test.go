package bus_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// narrow is a Dialer for bus.Config. Once now is set, its connections are limited to 400 KB/s.
type narrow struct{ now atomic.Bool }

func (n *narrow) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &narrowConn{conn, n}, nil
}

type narrowConn struct {
	net.Conn
	n *narrow
}

func (c *narrowConn) Read(b []byte) (int, error) {
	if c.n.now.Load() {
		<-time.After(40 * time.Millisecond)
		b = b[:min(len(b), 16<<10)]
	}
	return c.Conn.Read(b)
}

// Kept messages are read for as long as they arrive: over a slow connection a large answer takes
// longer than NATS may be silent.
func TestLargeAnswerOverANarrowWay(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	large := object(3 << 20)
	handle(t, url, func(_ context.Context, _ *busv1.Request, out *bus.Responder) (proto.Message, error) {
		out.Progress(&busv1.Progress{Progress: 1})
		return &busv1.Result{Json: large}, nil
	})
	way := &narrow{}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "test", Logger: bustest.Logger(t), Dialer: way})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	one, two := keepingCaller(t, url), callerOn(t, conn)
	s := one.NewStream()
	if _, err := callOn(one, t.Context(), s, "svc", toolCall(`{}`), nil); err != nil {
		t.Fatal(err)
	}
	way.now.Store(true)
	got := follow(within(t, 2*bustest.Patience), two, s, edges.Position{}, nobody)
	if got.err != nil || !bytes.Equal(got.frame.GetResult().GetJson(), large) {
		t.Errorf("%d bytes, %v", len(got.frame.GetResult().GetJson()), got.err)
	}
}
