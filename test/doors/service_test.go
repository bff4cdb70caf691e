package doors

import (
	"context"
	"log/slog"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/test/testservice"
)

const serviceName = "testservice"

// service is the test service, with tools that policy is about.
func (w *world) service() *service.Service {
	s := testservice.New(&w.ledger, service.WithLogger(slog.New(slog.DiscardHandler)))
	for _, name := range []string{"private", "often", "crowded"} {
		service.AddTool(s, service.Tool{Name: name}, testservice.Plain(&w.ledger))
	}
	addSights(s)
	addBodies(s)
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
	servicetest.Join(t, conn, s)
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	for _, e := range w.edges {
		if err := e.Await(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	conn.Close()
}
