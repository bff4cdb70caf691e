package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// D10: a call that ran uses up its approval, and no other call does.
func TestD10ACallThatDidNotRunGivesItsApprovalBack(t *testing.T) {
	t.Parallel()
	ask := func(w *world, state []byte) *gateway.Call {
		c := approved(state, yes)
		c.Name = "approved_flaky"
		return c
	}
	t.Run("elicited", func(t *testing.T) {
		t.Parallel()
		w, other := approving(t)
		state := w.works(t, ask(w, nil)).InputRequired.GetRequestState()
		w.fails(t, ask(w, state), fault.Unavailable, fault.No)
		if a, err := other.Do(t.Context(), ask(w, state), nil); err != nil || a.Result == nil {
			t.Fatalf("at another edge, after nothing ran: %v, %v", a, err)
		}
		w.fails(t, ask(w, state), fault.Conflict, fault.Unknown)
		if n := w.svc.Calls.Load(); n != 2 {
			t.Errorf("the handler began %d times, want 2", n)
		}
	})
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		w, other := approving(t)
		id := heldID(t, w.fails(t, toolCall("approved_flaky", `{"a":1}`), fault.ApprovalRequired, fault.No))
		if _, err := w.gateway.Approve(t.Context(), "desk", gateway.Credentials{}, id, true, nil); !fault.Is(err, fault.Unavailable) {
			t.Fatalf("the first time: %v", err)
		}
		if all, err := other.Held(t.Context(), gateway.ForApproval, "desk", gateway.Credentials{}); err != nil || len(all) != 1 || all[0].ID != id {
			t.Errorf("after nothing ran %v, %v wait; want %s", all, err, id)
		}
		if a, err := approve(t, other, gateway.Credentials{}, id, true); err != nil || a.Result == nil {
			t.Fatalf("the second time: %v, %v", a, err)
		}
		if _, err := approve(t, w.gateway, gateway.Credentials{}, id, true); !fault.Is(err, fault.UnknownApproval) {
			t.Errorf("after it ran: %v", err)
		}
	})
}

func heldID(t *testing.T, f *fault.Error) string {
	t.Helper()
	var data struct {
		Approval string    `json:"approval"`
		Expires  time.Time `json:"expires"`
	}
	if err := json.Unmarshal(f.Data, &data); err != nil || data.Approval == "" {
		t.Fatalf("%s: %v", f.Data, err)
	}
	return data.Approval
}

// B3: a model does not read how to approve, nobody is asked about arguments that the tool would
// refuse. TestHeld has the bounds of held calls.
func TestB3WhoIsAsked(t *testing.T) {
	t.Parallel()
	w, _ := approving(t)
	t.Run("the text has no recipe", func(t *testing.T) {
		f := w.fails(t, toolCall("approved", `{}`), fault.ApprovalRequired, fault.No)
		id := heldID(t, f)
		if strings.Contains(f.Message, id) || strings.Contains(f.Message, "/approvals") || !strings.Contains(f.Message, " UTC") {
			t.Errorf("a model reads %q", f.Message)
		}
	})
	t.Run("arguments are checked first", func(t *testing.T) {
		c := toolCall("approved_flaky", `{"a":"x"}`)
		w.fails(t, c, fault.InvalidParams, fault.No)
		c = toolCall("approved_flaky", `{"a":"x"}`)
		c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{}}`)}
		w.fails(t, c, fault.InvalidParams, fault.No)
	})
}
