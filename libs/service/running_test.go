package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
)

// The functions of OnStop run in reverse order: once the last instance has left and its loops have
// ended, or when none can be started.
func TestOnStop(t *testing.T) {
	t.Parallel()
	var closed []string
	build := func() *service.Service {
		closed = nil
		s := quiet(t, "svc")
		for _, what := range []string{"database", "client"} {
			s.OnStop(func() { closed = append(closed, what) })
		}
		return s
	}
	isClosed := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(closed, want) {
			t.Errorf("%s: closed %v, want %v", when, closed, want)
		}
	}
	s := build()
	s.Go(func(ctx context.Context, conn *bus.Conn) error {
		<-ctx.Done()
		closed = append(closed, "loop")
		return conn.Flush(context.WithoutCancel(ctx))
	})
	url := bustest.Server(t)
	running, err := s.Start(t.Context(), bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	isClosed("while it runs")
	for range 2 {
		if err := running.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		isClosed("after its end", "loop", "client", "database")
	}
	s = build()
	addPlain(s, "not a name")
	if _, err := s.Start(t.Context(), nil); err == nil {
		t.Error("a service with a mistake starts")
	}
	isClosed("after a failed start", "client", "database")
}

// An instance whose loop fails stops, and says why to whoever serves it.
func TestLoopFails(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.Go(func(context.Context, *bus.Conn) error { return errors.New("the disk is gone") })
	running, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "service svc: the disk is gone") {
		t.Errorf("served: %v", err)
	}
}

func TestHandle(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.Handle(bus.AuditQuery, func(_ context.Context, _ *service.Call, name string, params []byte) (any, error) {
		if len(params) == 0 {
			return nil, service.Errorf("%s needs params", name)
		}
		return map[string]int{name: len(params)}, nil
	})
	c := run(t, s)
	same(t, "the answer", c.result(&busv1.Request{Method: bus.AuditQuery, Name: "bytes", Arguments: []byte(`[]`)}), `{"bytes":2}`)
	if f := c.fails(&busv1.Request{Method: bus.AuditQuery, Name: "bytes"}, fault.InvalidParams); f.Message != "bytes needs params" {
		t.Error(f.Message)
	}
}
