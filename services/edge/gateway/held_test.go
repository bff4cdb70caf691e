package gateway_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// A held call is listed for its decider and for nobody else, who decides once, at any edge, in
// time, and in the form that was asked for: whether that is the caller's approval, somebody
// else's, or the caller's answers to its tool.
func TestHeldCalls(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, _ := openPolicy(t, adminsApprove)
	var edges, policed [2]*gateway.Gateway
	w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
		cfg.Approvals, cfg.Authenticator, cfg.Sealer = approvals(t, url), byTenant{}, sealer(t, 1)
		open := *cfg
		open.Access = live
		for i := range edges {
			edges[i], policed[i] = gateway.New(*cfg), gateway.New(open)
		}
	})
	as := func(who string) gateway.Credentials { return gateway.Credentials{Bearer: who} }
	ada := gateway.Principal{Tenant: "acme", Name: "ada"}
	for name, c := range map[string]struct {
		ask       *gateway.Ask
		at        [2]*gateway.Gateway
		tool      string
		held      fault.Reason // of the call
		unknown   fault.Reason
		id        string // its name in the error's data
		key       string // of the store
		decider   string
		strangers []string
		most      int // bytes of arguments
	}{
		"its caller approves": {gateway.ForApproval, edges, "approved", fault.ApprovalRequired, fault.UnknownApproval, "approval",
			"", "acme/ada", []string{"acme/bob", "acme/root", "beta/ada"}, 64 << 10},
		"somebody else approves": {gateway.ForApproval, policed, "approved", fault.ApprovalRequired, fault.UnknownApproval, "approval",
			store.Approvers("acme"), "acme/root", []string{"acme/ada", "acme/bob", "beta/root", "beta/ada"}, 64 << 10},
		"its caller answers": {gateway.ForAnswers, edges, "remember", fault.InputRequired, fault.UnknownElicitation, "elicitation",
			store.Asked(ada.ID()), "acme/ada", []string{"acme/bob", "acme/root", "beta/ada"}, 128 << 10},
	} {
		hold := func(t *testing.T) string {
			t.Helper()
			_, err := c.at[0].Do(t.Context(), later("acme/ada", c.tool), nil)
			var data map[string]any
			f := fault.From(err)
			if !fault.Is(err, c.held) || f.Executed != fault.No || json.Unmarshal(f.Data, &data) != nil {
				t.Fatalf("%v", err)
			}
			until, err := time.Parse(time.RFC3339, data["expires"].(string))
			if left := time.Until(until); err != nil || left <= 0 || left > store.ApprovalLife {
				t.Errorf("expires in %v, %v", left, err)
			}
			return data[c.id].(string)
		}
		// decide gives the answer that a kind expects.
		decide := func(t *testing.T, ask *gateway.Ask, edge int, who, id string, yes bool) error {
			t.Helper()
			_, err := heard(t, func() (*gateway.Answer, error) {
				if ask == gateway.ForAnswers {
					return c.at[edge].Answer(t.Context(), "desk", as(who), id, []byte(`{"ok":{"action":"accept"}}`), nil)
				}
				return c.at[edge].Approve(t.Context(), "desk", as(who), id, yes, nil)
			})
			return err
		}
		list := func(t *testing.T, who string) (ids []string) {
			t.Helper()
			all, err := c.at[1].Held(t.Context(), c.ask, "desk", as(who))
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range all {
				if h.Name != c.tool || h.Arguments != nil || h.Requests != nil || h.State != nil {
					t.Errorf("listed %+v", h)
				}
				ids = append(ids, h.ID)
			}
			return ids
		}
		t.Run(name, func(t *testing.T) {
			if ids := list(t, c.decider); len(ids) != 0 {
				t.Errorf("nothing waits, but %v", ids)
			}
			id, second := hold(t), hold(t)
			if ids := list(t, c.decider); !slices.Equal(ids, []string{id, second}) {
				t.Errorf("%v wait, want %s and %s", ids, id, second)
			}
			for _, who := range c.strangers {
				if ids := list(t, who); len(ids) != 0 {
					t.Errorf("%s sees %v", who, ids)
				}
				if _, err := c.at[1].FindHeld(t.Context(), c.ask, "desk", as(who), id); !fault.Is(err, c.unknown) {
					t.Errorf("%s finds it: %v", who, err)
				}
				for _, yes := range []bool{true, false} {
					if err := decide(t, c.ask, 1, who, id, yes); !fault.Is(err, c.unknown) || fault.From(err).Executed != fault.No {
						t.Errorf("%s decides: %v", who, err)
					}
				}
			}
			other := map[*gateway.Ask]*gateway.Ask{gateway.ForApproval: gateway.ForAnswers, gateway.ForAnswers: gateway.ForApproval}[c.ask]
			if err := decide(t, other, 1, c.decider, id, true); !fault.Is(err, fault.UnknownApproval) && !fault.Is(err, fault.UnknownElicitation) {
				t.Errorf("decided as the other kind: %v", err)
			}
			for _, wrong := range []string{"", "../" + id, strings.ToLower(id), rand.Text()} {
				if err := decide(t, c.ask, 1, c.decider, wrong, true); !fault.Is(err, c.unknown) {
					t.Errorf("id %q: %v", wrong, err)
				}
			}
			if h, err := c.at[1].FindHeld(t.Context(), c.ask, "desk", as(c.decider), id); err != nil || h.ID != id || h.Name != c.tool || string(h.Arguments) != `{"a":1}` {
				t.Errorf("found %+v, %v", h, err)
			}
			if err := decide(t, c.ask, 1, c.decider, id, true); err != nil {
				t.Fatalf("at another edge: %v", err)
			}
			if r := w.last(t); r.Principal.Name != "ada" || r.Name != c.tool || c.ask == gateway.ForApproval && !strings.HasSuffix(c.decider, "/"+r.Approval.By.Name) {
				t.Errorf("audited as %+v, approval %+v", r.Principal, r.Approval)
			}
			for edge := range c.at {
				if err := decide(t, c.ask, edge, c.decider, id, true); !fault.Is(err, c.unknown) || fault.From(err).Executed != fault.Unknown {
					t.Errorf("twice: %v", err)
				}
			}
			if _, err := c.at[0].FindHeld(t.Context(), c.ask, "desk", as(c.decider), id); !fault.Is(err, c.unknown) {
				t.Errorf("found after it ran: %v", err)
			}
			if ids := list(t, c.decider); !slices.Equal(ids, []string{second}) {
				t.Errorf("%v wait, want %s", ids, second)
			}
		})
		t.Run(name+", too late", func(t *testing.T) {
			over := &store.HeldCall{ID: rand.Text(), Principal: ada.ID(), For: c.key, Account: "p", Name: c.tool, Requests: []byte(`{}`), Expires: time.Now().Add(-time.Hour)}
			if err := approvals(t, url).Hold(t.Context(), over); err != nil {
				t.Fatal(err)
			}
			if err := decide(t, c.ask, 0, c.decider, over.ID, true); !fault.Is(err, c.unknown) {
				t.Error(err)
			}
			if ids := list(t, c.decider); slices.Contains(ids, over.ID) {
				t.Error("it is listed")
			}
		})
		t.Run(name+", too large to keep", func(t *testing.T) {
			large := later("acme/ada", c.tool)
			large.Arguments = []byte(`{"a":"` + strings.Repeat("x", c.most) + `"}`)
			if _, err := c.at[0].Do(t.Context(), large, nil); !fault.Is(err, fault.TooLarge) {
				t.Error(err)
			}
		})
		if c.ask == gateway.ForAnswers {
			continue
		}
		t.Run(name+", no", func(t *testing.T) {
			id := hold(t)
			if err := decide(t, c.ask, 0, c.decider, id, false); !fault.Is(err, fault.Forbidden) {
				t.Errorf("denied: %v", err)
			}
			if r := w.last(t); r.Outcome != "forbidden" || r.Name != c.tool || r.Principal.Name != "ada" || r.ID == "" ||
				r.Approval == nil || r.Approval.Agreed || r.Approval.Door != "desk" {
				t.Errorf("audited as %+v, approval %+v", r, r.Approval)
			}
			if err := decide(t, c.ask, 0, c.decider, id, true); !fault.Is(err, c.unknown) {
				t.Errorf("after it was denied: %v", err)
			}
		})
	}
}
