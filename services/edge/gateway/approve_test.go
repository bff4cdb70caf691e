package gateway_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// approving is a gateway with approvals, and another one on the same bus.
func approving(t *testing.T) (w *world, other *gateway.Gateway) {
	t.Helper()
	url := bustest.Server(t)
	return startOn(t, url, func(w *world, cfg *gateway.Config) {
		approvals := store.NewApprovals(bustest.Connect(t, url))
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

// A call whose client cannot be asked is held for its caller.
func TestApprovalOfHeldCall(t *testing.T) {
	t.Parallel()
	w, other := approving(t)
	held := func() string {
		c := toolCall("approved", `{"a":1}`)
		c.Credentials.Bearer = "ada"
		var data struct {
			Approval string    `json:"approval"`
			Expires  time.Time `json:"expires"`
		}
		if err := json.Unmarshal(w.fails(t, c, fault.ApprovalRequired, fault.No).Data, &data); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(data.Expires); left <= 0 || left > store.ApprovalLife {
			t.Errorf("expires in %v", left)
		}
		return data.Approval
	}
	approve := func(g *gateway.Gateway, who, id string, yes bool) error {
		_, err := heard(t, func() (*gateway.Answer, error) {
			return g.Approve(t.Context(), "desk", gateway.Credentials{Bearer: who}, id, yes, nil)
		})
		return err
	}
	// list has the calls that wait for a principal.
	list := func(g *gateway.Gateway, who string) (ids []string) {
		t.Helper()
		all, err := g.Held(t.Context(), "desk", gateway.Credentials{Bearer: who})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range all {
			if h.Name != "approved" || h.Arguments != nil {
				t.Errorf("listed %+v", h)
			}
			ids = append(ids, h.ID)
		}
		return ids
	}
	if ids := list(w.gateway, "ada"); len(ids) != 0 {
		t.Errorf("nothing waits, but %v", ids)
	}
	id, second := held(), held()
	if ids := list(other, "ada"); !slices.Equal(ids, []string{id, second}) {
		t.Errorf("%v wait, want %s and %s", ids, id, second)
	}
	if ids := list(w.gateway, "bob"); len(ids) != 0 {
		t.Errorf("somebody else sees %v", ids)
	}
	find := func(who, id string) (*store.HeldCall, error) {
		return other.FindHeld(t.Context(), "desk", gateway.Credentials{Bearer: who}, id)
	}
	if h, err := find("ada", id); err != nil || h.ID != id || h.Name != "approved" || string(h.Arguments) != `{"a":1}` {
		t.Errorf("found %+v, %v", h, err)
	}
	if _, err := find("bob", id); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("found by somebody else: %v", err)
	}
	if err := approve(w.gateway, "bob", id, true); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("by somebody else: %v", err)
	}
	if err := approve(w.gateway, "ada", "../"+id, true); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("another id: %v", err)
	}
	if err := approve(other, "ada", id, true); err != nil || w.svc.Calls.Load() != 1 {
		t.Errorf("at another edge: %v, %d calls", err, w.svc.Calls.Load())
	}
	if err := approve(w.gateway, "ada", id, true); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("twice: %v", err)
	}
	if _, err := find("ada", id); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("found after it ran: %v", err)
	}
	if ids := list(w.gateway, "ada"); !slices.Equal(ids, []string{second}) {
		t.Errorf("%v wait, want %s", ids, second)
	}
	id = held()
	if err := approve(w.gateway, "ada", id, false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("denied: %v", err)
	}
	if r := w.last(t); r.Outcome != "forbidden" || r.Name != "approved" || r.Principal.Name != "user of ada" || r.ID == "" {
		t.Errorf("the denial was audited as %+v", r)
	}
	if err := approve(w.gateway, "ada", id, true); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("after it was denied: %v", err)
	}
	if n := w.svc.Calls.Load(); n != 1 {
		t.Errorf("%d calls ran", n)
	}
}
