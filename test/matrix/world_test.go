package matrix

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// world is a bus with two instances of a service and two edges. It is one
// version's on one transport, so that changes reach no other cells.
type world struct {
	nats   string
	svc    *service.Service
	edges  []http.Handler
	ledger testservice.Ledger
}

func newWorld(t *testing.T, transport string) *world {
	t.Helper()
	w := &world{nats: bustest.Server(t)}
	w.svc = w.service()
	for _, join := range []func(testing.TB, string) *bus.Conn{bustest.Connect, bustest.Join} {
		running, err := w.svc.Start(soon(t), join(t, w.nats))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), answerTime)
			defer cancel()
			if err := running.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if transport != stdioTransport {
		guard := door.Guard{Loopback: true}
		w.edges = []http.Handler{w.join(t).Handler(guard), w.join(t).Handler(guard)}
	}
	return w
}

// join adds an edge to the bus.
func (w *world) join(t *testing.T) *edge.Edge {
	t.Helper()
	ctx := soon(t)
	e, err := edge.New(ctx, bustest.Join(t, w.nats), edge.Config{Version: "1", Logger: bustest.Logger(t), Audit: edge.Audit{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, w.svc.Name()); err != nil {
		t.Fatal(err)
	}
	return e
}

// Resources that clients subscribe to.
const noteA, noteB = "note:///a", "note:///b"

// icon is the icon of a tool.
const icon = "data:image/png;base64,iVBORw0KGgo="

// service is the test service with resources that change.
func (w *world) service() *service.Service {
	s := testservice.New(&w.ledger, service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: "drawn", Icons: []mcp.Icon{{Src: icon, MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}}},
		func(context.Context, *service.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	for _, uri := range []string{noteA, noteB} {
		s.AddResource(mcp.Resource{URI: uri, Name: uri}, func(context.Context, *service.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
			return nil, nil
		})
	}
	return s
}

// roundRobin gives each TCP connection to the next of the addresses: a load
// balancer without stickiness.
func roundRobin(t *testing.T, addresses []string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() {
		for next := 0; ; next++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { join(t, client, addresses[next%len(addresses)]) })
		}
	})
	return l.Addr().String()
}

// join copies both ways until either side ends.
func join(t *testing.T, client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	var copying sync.WaitGroup
	pipe := func(to, from net.Conn) {
		defer func() { _, _ = client.Close(), server.Close() }()
		_, _ = io.Copy(to, from)
	}
	copying.Go(func() { pipe(server, client) })
	pipe(client, server)
	copying.Wait()
}
