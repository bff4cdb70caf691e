package gateway_test

import (
	"context"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// H8: the call that a person approved is the call that runs: the same tool of the same service.
func TestH8AnApprovalIsForTheToolAsItWas(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	ran := 0
	// offer makes a service offer the tool, and returns a function that withdraws it.
	offer := func(description string) func() {
		s := service.New("changing")
		service.AddTool(s, service.Tool{Name: "change", Description: description, RequiresUserApproval: true},
			func(context.Context, *service.Call, struct{}) (string, error) {
				ran++
				return description, nil
			})
		return edgetest.Serve(t, bustest.Connect(t, url), s)
	}
	var other *gateway.Gateway
	w := startOn(t, url, func(w *world, cfg *gateway.Config) {
		approvals := approvals(t, url)
		cfg.Approvals, cfg.Sealer = approvals, sealer(t, 1)
		other = gateway.New(*cfg)
	})
	definition := func() string { target, _ := w.live.Now().Tool("change"); return target.Definition }
	stop := offer("reads")
	bustest.Eventually(t, "the tool is offered", func() bool { return definition() != "" })
	before := definition()
	held := heldID(t, w.fails(t, toolCall("change", `{}`), fault.ApprovalRequired, fault.No))
	elicit := func(state []byte) *gateway.Call {
		c := toolCall("change", `{}`)
		c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}
		if state != nil {
			c.RequestState, c.InputResponses = state, []byte(`{"io.github.busbar-mcp/approval":`+yes+`}`)
		}
		return c
	}
	state := w.works(t, elicit(nil)).InputRequired.GetRequestState()
	stop()
	offer("deletes")
	bustest.Eventually(t, "the tool is another", func() bool { return definition() != "" && definition() != before })

	if _, err := approve(t, w.gateway, gateway.Credentials{}, held, true); !fault.Is(err, fault.Conflict) {
		t.Errorf("the held call: %v", err)
	}
	if _, err := other.FindHeld(t.Context(), gateway.ForApproval, "desk", gateway.Credentials{}, held); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("it is held still: %v", err)
	}
	w.fails(t, elicit(state), fault.InvalidParams, fault.No)
	if ran != 0 {
		t.Errorf("%d calls ran", ran)
	}
	// Asked again, it runs.
	if a := w.works(t, elicit(w.works(t, elicit(nil)).InputRequired.GetRequestState())); a.Result == nil || ran != 1 {
		t.Errorf("%v, %d calls ran", a, ran)
	}
}
