package gateway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// later is a principal's call of a door that asks later.
func later(who, tool string) *gateway.Call {
	c := toolCall(tool, `{"a":1}`)
	c.Credentials = gateway.Credentials{Bearer: who}
	c.AskLater, c.Client = true, &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
	return c
}

func elicitation(t *testing.T, err error) (id string, forms map[string]gateway.Question) {
	t.Helper()
	var data struct {
		Elicitation string                      `json:"elicitation"`
		Requests    map[string]gateway.Question `json:"requests,omitzero"`
	}
	f := fault.From(err)
	if f == nil || f.Reason != fault.InputRequired || f.Executed != fault.No || json.Unmarshal(f.Data, &data, json.RejectUnknownMembers(false)) != nil || data.Elicitation == "" {
		t.Fatalf("%v", err)
	}
	return data.Elicitation, data.Requests
}

// A call that somebody approved is not approved again when its tool asks, and forms are for its
// caller alone.
func TestElicitation(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, _ := openPolicy(t, adminsApprove)
	var other *gateway.Gateway
	w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
		cfg.Approvals, cfg.Authenticator, cfg.Sealer = approvals(t, url), byTenant{}, sealer(t, 1)
		open := *cfg
		cfg.Access = live
		other = gateway.New(open)
	})
	as := func(who string) gateway.Credentials { return gateway.Credentials{Bearer: who} }
	const ok = `{"ok":{"action":"accept"}}`
	answer := func(g *gateway.Gateway, who, id, with string) (*gateway.Answer, error) {
		return reply(t, g, as(who), id, with)
	}
	text := func(a *gateway.Answer, err error) string {
		t.Helper()
		if err != nil || a.Result == nil {
			t.Fatalf("%v, %v", a, err)
		}
		return string(a.Result.Json)
	}
	asks := func(g *gateway.Gateway, who, tool string) string {
		t.Helper()
		_, err := g.Do(t.Context(), later(who, tool), nil)
		id, _ := elicitation(t, err)
		return id
	}

	t.Run("after its own approval", func(t *testing.T) {
		_, err := other.Do(t.Context(), later("acme/bob", "remember_approved"), nil)
		if !fault.Is(err, fault.ApprovalRequired) { // held, though the client says it can be asked
			t.Fatal(err)
		}
		_, err = approve(t, other, as("acme/bob"), heldID(t, fault.From(err)), true)
		id, forms := elicitation(t, err)
		if forms["ok"].Message != "OK?" {
			t.Errorf("%+v", forms)
		}
		if got := text(answer(other, "acme/bob", id, ok)); !strings.Contains(got, "kept secret") {
			t.Error(got)
		}
	})
	t.Run("after somebody else's", func(t *testing.T) {
		_, err := w.gateway.Do(t.Context(), later("acme/ada", "remember_approved"), nil)
		if !fault.Is(err, fault.ApprovalRequired) {
			t.Fatal(err)
		}
		_, err = approve(t, w.gateway, as("acme/root"), heldID(t, fault.From(err)), true)
		id, forms := elicitation(t, err)
		if forms != nil {
			t.Errorf("who agrees is told what the caller is asked: %v", forms)
		}
		if _, err := answer(w.gateway, "acme/root", id, ok); !fault.Is(err, fault.UnknownElicitation) {
			t.Errorf("who agreed answers: %v", err)
		}
		if got := text(answer(w.gateway, "acme/ada", id, ok)); !strings.Contains(got, "kept secret") {
			t.Error(got)
		}
		if r := w.last(t); r.Principal.Name != "ada" || r.Approval == nil || r.Approval.By.Name != "root" {
			t.Errorf("audited as %+v, approval %+v", r.Principal, r.Approval)
		}
	})
	t.Run("its own word where others' is asked for", func(t *testing.T) {
		id := asks(other, "acme/ada", "remember")
		if got := text(answer(w.gateway, "acme/ada", id, ok)); !strings.Contains(got, "kept secret") { // needs none
			t.Error(got)
		}
		_, err := other.Do(t.Context(), later("acme/ada", "remember_approved"), nil)
		_, err = approve(t, other, as("acme/ada"), heldID(t, fault.From(err)), true)
		id, _ = elicitation(t, err)
		// At an edge whose policy requires another person's approval, the caller's own does not
		// count.
		if _, err := answer(w.gateway, "acme/ada", id, ok); !fault.Is(err, fault.ApprovalRequired) {
			t.Errorf("%v", err)
		}
	})
	t.Run("an answer that did not arrive", func(t *testing.T) {
		id := asks(other, "acme/bob", "remember")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := other.Answer(gone, "desk", as("acme/bob"), id, []byte(ok), nil); err == nil {
			t.Fatal("it was carried out")
		}
		if got := text(answer(other, "acme/bob", id, ok)); !strings.Contains(got, "kept secret") {
			t.Error(got)
		}
	})
	t.Run("no forms", func(t *testing.T) {
		service.AddTool(w.svc.Service, service.Tool{Name: "sample"}, func(_ context.Context, c *service.Call, _ struct{}) (string, error) {
			_, err := c.Ask(service.Sample("q", service.Sampling{MaxTokens: 1}))
			return "", err
		})
		c := later("acme/bob", "sample")
		c.Arguments = nil
		bustest.Eventually(t, "the tool is there", func() bool {
			_, err := other.Do(t.Context(), c, nil)
			return fault.Is(err, fault.MissingCapability)
		})
	})
}
