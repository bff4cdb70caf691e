package gateway_test

import (
	"bytes"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// approving is a gateway with approvals, and another one on the same bus.
func approving(t *testing.T) (w *world, other *gateway.Gateway) {
	t.Helper()
	url := bustest.Server(t)
	return startOn(t, url, func(w *world, cfg *gateway.Config) {
		approvals := approvals(t, url)
		cfg.Approvals, cfg.Authenticator, cfg.Sealer = approvals, w, sealer(t, 1)
		other = gateway.New(*cfg)
	}), other
}

func approved(state []byte, answer string) *gateway.Call {
	c := toolCall("approved", `{"a":1}`)
	c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
	if state != nil {
		c.RequestState, c.InputResponses = bytes.Clone(state), []byte(`{"io.github.busbar-mcp/approval":`+answer+`}`)
	}
	return c
}

const yes = `{"action":"accept","content":{"approve":true}}`

// A client's user is asked, and each approval is for one call.
func TestApprovalByElicitation(t *testing.T) {
	t.Parallel()
	w, other := approving(t)
	asked := func() []byte {
		q := w.works(t, approved(nil, "")).InputRequired
		if !strings.Contains(string(q.GetInputRequests()), `"elicitation/create"`) || w.svc.Calls.Load() > 1 {
			t.Fatalf("%s", q.GetInputRequests())
		}
		return q.GetRequestState()
	}
	for name, c := range map[string]struct {
		answer string
		reason fault.Reason
	}{
		"declined":      {`{"action":"decline"}`, fault.Forbidden},
		"not agreed":    {`{"action":"accept","content":{"approve":false}}`, fault.Forbidden},
		"nothing said":  {`{"action":"accept"}`, fault.Forbidden},
		"no answer":     {`null`, fault.Forbidden},
		"another shape": {`{"action":1}`, fault.InvalidParams},
	} {
		t.Run(name, func(t *testing.T) { w.fails(t, approved(asked(), c.answer), c.reason, fault.No) })
	}
	state := asked()
	w.fails(t, func() *gateway.Call {
		c := approved(state, yes)
		c.Arguments = []byte(`{"a":2}`)
		return c
	}(), fault.InvalidParams, fault.No)
	if n := w.svc.Calls.Load(); n != 0 {
		t.Fatalf("%d calls ran", n)
	}
	if a, err := other.Do(t.Context(), approved(state, yes), nil); err != nil || a.Result == nil {
		t.Fatalf("at another edge: %v, %v", a, err)
	}
	w.fails(t, approved(state, yes), fault.Conflict, fault.Unknown)
	if n := w.svc.Calls.Load(); n != 1 {
		t.Errorf("%d calls ran", n)
	}
}
