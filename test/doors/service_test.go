package doors

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

const serviceName = "doors"

type (
	keyed struct {
		Key      string `json:"key"`
		Password string `json:"password,omitzero"`
	}
	sized struct {
		Key   string `json:"key"`
		Bytes int    `json:"bytes"`
	}
	refused struct {
		Key      string `json:"key"`
		Reason   string `json:"reason"`
		Executed string `json:"executed"`
	}
	said struct {
		Said string `json:"said"`
		N    int    `json:"n"`
	}
)

// service has a tool for each way a call can end.
func (w *world) service() *service.Service {
	s := service.New(serviceName, service.WithVersion("1.0.0"), service.WithLogger(slog.New(slog.DiscardHandler)))
	plain := func(_ context.Context, _ *service.Call, in keyed) (*service.Result, error) {
		w.ledger.add(in.Key)
		return &service.Result{Content: []mcp.Content{mcp.Text("done\nü")}}, nil
	}
	for _, name := range []string{"plain", "private", "often", "crowded"} {
		service.AddTool(s, service.Tool{Name: name}, plain)
	}
	service.AddTool(s, service.Tool{Name: "look", ReadOnly: true}, plain)
	service.AddTool(s, service.Tool{Name: "careful", RequiresUserApproval: true}, plain)
	service.AddTool(s, service.Tool{Name: "structured"}, func(_ context.Context, _ *service.Call, in keyed) (said, error) {
		w.ledger.add(in.Key)
		return said{"done", 9007199254740993}, nil
	})
	service.AddTool(s, service.Tool{Name: "fail"}, func(_ context.Context, _ *service.Call, in keyed) (said, error) {
		w.ledger.add(in.Key)
		return said{}, service.Errorf("no such city")
	})
	service.AddTool(s, service.Tool{Name: "panic"}, func(_ context.Context, _ *service.Call, in keyed) (said, error) {
		w.ledger.add(in.Key)
		panic("secret")
	})
	service.AddTool(s, service.Tool{Name: "stuck", Timeout: 300 * time.Millisecond}, func(ctx context.Context, _ *service.Call, in keyed) (said, error) {
		w.ledger.add(in.Key)
		<-ctx.Done()
		return said{}, ctx.Err()
	})
	service.AddTool(s, service.Tool{Name: "big"}, func(_ context.Context, _ *service.Call, in sized) (*service.Result, error) {
		w.ledger.add(in.Key)
		return &service.Result{Content: []mcp.Content{mcp.Text(strings.Repeat("x", in.Bytes))}}, nil
	})
	service.AddTool(s, service.Tool{Name: "ask"}, func(_ context.Context, c *service.Call, in keyed) (said, error) {
		w.ledger.add(in.Key)
		_, err := c.Ask(service.Elicit("who", "Who are you?", map[string]any{"type": "object", "properties": map[string]any{}}))
		return said{}, err
	})
	// refuse ends as it is told.
	service.AddTool(s, service.Tool{Name: "refuse"}, func(_ context.Context, _ *service.Call, in refused) (said, error) {
		e := fault.New(fault.Reason(in.Reason), "refused as told").Ran(fault.Executed(in.Executed)).With([]byte(`{"approval":"A1","version":7}`))
		e.RetryAfter = 2500 * time.Millisecond
		return said{}, e
	})
	return s
}

// cutOff puts a service with the tool "gone" on the bus and cuts it off, as its
// death would. The edges know the tool for some seconds more.
func (w *world) cutOff(t *testing.T) {
	t.Helper()
	const name = "gone"
	s := service.New(name, service.WithLogger(slog.New(slog.DiscardHandler)))
	service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, keyed) (said, error) { return said{}, nil })
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
