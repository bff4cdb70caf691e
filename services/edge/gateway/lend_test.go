package gateway_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// A client's model is asked for its own principal, on the record, and only
// where no service has one.
func TestLending(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w, other := startOn(t, url, all), startOn(t, url, all)
	sample := func(bearer string) *gateway.Call {
		return &gateway.Call{
			Door: "test", Method: mcp.MethodSample, Credentials: gateway.Credentials{Bearer: bearer},
			Arguments: []byte(`{"messages":[{"role":"user","content":{"type":"text","text":"Hi?"}}],"maxTokens":5}`),
		}
	}
	ada, err := other.gateway.Authenticate(t.Context(), gateway.Credentials{Bearer: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	lent, err := other.gateway.Lend(ada.ID(), func(context.Context, *busv1.Request, *bus.Responder) (proto.Message, error) {
		return &busv1.Result{Json: []byte(`{"lent":1}`)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lent.Drain(context.Background()) })
	says := func(want string) func() bool {
		return func() bool {
			a, err := w.gateway.Do(t.Context(), sample("ada"), nil)
			return err == nil && string(a.Result.Json) == want
		}
	}
	bustest.Eventually(t, "the client's model answers", says(`{"lent":1}`))
	if r := w.last(t); r.Outcome != "ok" || r.Method != mcp.MethodSample || r.Target.Service != bus.Lender {
		t.Errorf("audited %+v of %+v", r, r.Call)
	}
	w.fails(t, sample("bob"), fault.Unavailable, fault.No)
	bad := sample("ada")
	bad.Arguments = []byte(`{"messages":[]}`)
	w.fails(t, bad, fault.InvalidParams, fault.No)

	s := service.New("model", service.WithLogger(bustest.Logger(t)))
	s.HandleSampling(func(context.Context, *service.Call, *mcp.CreateMessageParams) (*service.Sampled, error) {
		return &service.Sampled{Role: "assistant", Model: "m", Content: []byte(`{"type":"text","text":"served"}`)}, nil
	})
	edgetest.Serve(t, bustest.Connect(t, url), s)
	bustest.Eventually(t, "the service's model answers", says(`{"role":"assistant","content":{"type":"text","text":"served"},"model":"m"}`))
}

// The anonymous principal is everybody.
func TestAnonymousLending(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	if lent, err := w.gateway.Lend(gateway.Anonymous.ID(), nil); lent != nil || err != nil {
		t.Errorf("%v %v", lent, err)
	}
	w = start(t, func(_ *world, cfg *gateway.Config) { cfg.LendClientModels = true })
	lent, err := w.gateway.Lend(gateway.Anonymous.ID(), nil)
	if lent == nil || err != nil {
		t.Fatalf("%v %v", lent, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := lent.Drain(ctx); err != nil {
		t.Error(err)
	}
}
