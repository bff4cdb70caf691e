package doors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/test/testservice"
)

const serviceName = "testservice"

// service is the test service, with tools that policy is about.
func (w *world) service() *service.Service {
	s := testservice.New(&w.ledger)
	for _, name := range []string{"private", "often", "crowded"} {
		service.AddTool(s, service.Tool{Name: name}, testservice.Plain(&w.ledger))
	}
	return s
}

// cutOff puts a service with the tool "gone" on the bus and cuts it off, as its
// death would. The edges know the tool for some seconds more.
func (w *world) cutOff(t *testing.T) {
	t.Helper()
	const name = "gone"
	s := service.New(name, service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, []byte) (any, error) { return nil, nil })
	conn := bustest.Connect(t, w.nats)
	serve(t, conn, s)
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	for _, e := range w.edges {
		if err := e.Await(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	conn.Close()
}

// serve puts a service on the bus for the length of the test.
func serve(t *testing.T, conn *bus.Conn, s *service.Service) {
	t.Helper()
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = running.Stop(ctx)
	})
}
