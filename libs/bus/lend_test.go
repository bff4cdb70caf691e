package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

func TestLend(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	edge, other := newCaller(t, url), newCaller(t, url)
	ended := make(chan struct{}, 1)
	lend := func(c *bus.Caller, principal, model string) *bus.Server {
		s, err := c.Lend(principal, func(ctx context.Context, req *busv1.Request, _ *bus.Responder) (proto.Message, error) {
			if string(req.Arguments) == "hold" {
				<-ctx.Done()
				ended <- struct{}{}
				return nil, ctx.Err()
			}
			return &busv1.Result{Json: []byte(model)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	borrow := func(ctx context.Context, principal, arguments string) (string, error) {
		f, err := other.Borrow(ctx, principal, &busv1.Request{Method: "sampling/createMessage", Arguments: []byte(arguments)})
		return string(f.GetResult().GetJson()), err
	}
	lenders := []*bus.Server{lend(edge, "4:acmeada", `{"ada":1}`), lend(other, "4:acmeada", `{"ada":1}`), lend(edge, "0:>.*", `{"odd":1}`)}
	for principal, want := range map[string]string{"4:acmeada": `{"ada":1}`, "0:>.*": `{"odd":1}`} {
		bustest.Eventually(t, "a principal's own client is asked", func() bool {
			got, err := borrow(t.Context(), principal, "")
			if err == nil && got != want {
				t.Fatalf("%s got %s", principal, got)
			}
			return err == nil
		})
	}
	for _, principal := range []string{"4:acmebob", "0:ada", ""} {
		_, err := borrow(t.Context(), principal, "")
		fails(t, err, fault.Unavailable, fault.No)
		if !errors.Is(err, bus.ErrNoInstance) {
			t.Errorf("%s: %v", principal, err)
		}
	}
	// A caller that goes is told of.
	if _, err := borrow(within(t, 300*time.Millisecond), "4:acmeada", "hold"); err == nil {
		t.Error("answered though nobody did")
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("runs on after its caller left")
	}
	for _, s := range lenders {
		if err := s.Drain(within(t, 5*time.Second)); err != nil {
			t.Error(err)
		}
	}
	if _, err := borrow(t.Context(), "4:acmeada", ""); !errors.Is(err, bus.ErrNoInstance) {
		t.Errorf("lends on: %v", err)
	}
}

// No service may stand where edges do.
func TestEdgesNamesAreTaken(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	for _, name := range []string{bus.Gateway, bus.Lender} {
		if _, err := registry.Announce(conn, name, "x", "1.0.0", &busv1.Catalogue{Service: name}); err == nil {
			t.Errorf("a service may be called %s", name)
		}
	}
}
