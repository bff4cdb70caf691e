package gateway_test

import (
	"encoding/json"
	"os"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// governed is a gateway whose policy is a file, and a function that replaces the file and waits
// until the new policy applies.
func governed(t *testing.T, policy string) (w *world, becomes func(policy string)) {
	t.Helper()
	url := bustest.Server(t)
	live, path := openPolicy(t, policy)
	w = startOn(t, url, func(_ *world, cfg *gateway.Config) {
		cfg.Approvals, cfg.Authenticator, cfg.Access, cfg.Sealer = approvals(t, url), byTenant{}, live, sealer(t, 1)
	})
	return w, func(policy string) {
		t.Helper()
		before := live.Now().Digest()
		if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the policy is another", func() bool { return live.Now().Digest() != before })
	}
}

const (
	asks      = "anonymous: []\nrequire_approval: []\nroles: {worker: {allow: [\"*\"]}, admin: {allow: [\"*\"]}}\n"
	waives    = asks + "waive_approval: [tools/approved]\n"
	ofOthers  = "require_approval: []\nroles: {worker: {allow: [\"*\"]}, admin: {allow: [\"*\"], approve: [tools/approved]}}\n"
	requires  = "require_approval: [tools/approved, tools/echo, tools/remember]\nroles: {worker: {allow: [\"*\"]}, admin: {allow: [\"*\"]}}\nwaive_approval: [\"*\"]\n"
	waivesFor = "require_approval: []\nroles: {worker: {allow: [\"*\"]}, admin: {allow: [\"*\"], waive_approval: [tools/approved]}}\n"
)

func by(who string, c *gateway.Call) *gateway.Call {
	c.Credentials = gateway.Credentials{Bearer: who}
	return c
}

// A policy waives the approval that a tool asks for, for all or for a role, and the audit trail
// says so. It cannot waive an approval that it requires itself.
func TestPolicyWaivesApproval(t *testing.T) {
	t.Parallel()
	w, becomes := governed(t, waives)
	call := func(who string) *gateway.Call { return by(who, toolCall("approved", `{"a":1}`)) }
	if a := w.works(t, call("acme/ada")); a.Result == nil {
		t.Errorf("%+v", a)
	}
	if a := w.last(t).Approval; a == nil || !a.Waived || a.Agreed {
		t.Errorf("the trail has %+v", a)
	}
	w.works(t, by("acme/ada", toolCall("echo", `{"a":1}`)))
	if a := w.last(t).Approval; a != nil {
		t.Errorf("of a tool that asks for nobody the trail has %+v", a)
	}
	needs := func(who, tool string, says bool) bool {
		t.Helper()
		f, err := w.gateway.Needs(t.Context(), gateway.Credentials{Bearer: who})
		if err != nil {
			t.Fatal(err)
		}
		return f(tool, says)
	}
	if needs("acme/ada", "approved", true) {
		t.Error("lists say that it needs approval")
	}
	becomes(waivesFor)
	w.fails(t, call("acme/ada"), fault.ApprovalRequired, fault.No)
	w.works(t, call("acme/root"))
	if !needs("acme/ada", "approved", true) || needs("acme/root", "approved", true) {
		t.Error("lists do not say what each principal meets")
	}
	becomes(requires)
	for _, tool := range []string{"approved", "echo"} {
		w.fails(t, by("acme/root", toolCall(tool, `{"a":1}`)), fault.ApprovalRequired, fault.No)
		if !needs("acme/root", tool, false) {
			t.Errorf("lists do not say that %s needs approval", tool)
		}
	}
}

// A call waits for a person when the policy changes: the answer of that person counts, unless the
// person may no longer approve.
func TestApprovalsThatWaitWhenThePolicyChanges(t *testing.T) {
	t.Parallel()
	w, becomes := governed(t, asks)
	held := func(who string) string {
		t.Helper()
		return heldID(t, w.fails(t, by(who, toolCall("approved", `{"a":1}`)), fault.ApprovalRequired, fault.No))
	}
	decide := func(who, id string, agree bool) error {
		_, err := approve(t, w.gateway, gateway.Credentials{Bearer: who}, id, agree)
		return err
	}
	asked := func() []byte {
		t.Helper()
		return w.works(t, by("acme/ada", approved(nil, ""))).InputRequired.GetRequestState()
	}
	yesID, noID, toOthers := held("acme/ada"), held("acme/ada"), held("acme/ada")
	agree, decline, late, other := asked(), asked(), asked(), asked()
	ran := w.svc.Calls.Load()

	becomes(waives)
	if err := decide("acme/ada", noID, false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("held, waived meanwhile, refused: %v", err)
	}
	w.fails(t, by("acme/ada", approved(decline, `{"action":"decline"}`)), fault.Forbidden, fault.No)
	if n := w.svc.Calls.Load() - ran; n != 0 {
		t.Fatalf("%d calls ran that a person refused", n)
	}
	if err := decide("acme/ada", yesID, true); err != nil {
		t.Errorf("held, waived meanwhile, agreed to: %v", err)
	}
	if a := w.last(t).Approval; a == nil || !a.Agreed {
		t.Errorf("the trail has %+v", a)
	}
	if a := w.works(t, by("acme/ada", approved(agree, yes))); a.Result == nil {
		t.Errorf("asked, waived meanwhile, agreed to: %+v", a)
	}
	w.fails(t, by("acme/ada", approved(agree, yes)), fault.Conflict, fault.Unknown)
	if n := w.svc.Calls.Load() - ran; n != 2 {
		t.Errorf("%d calls ran, want 2", n)
	}

	becomes(ofOthers)
	for _, agree := range []bool{true, false} {
		if err := decide("acme/ada", toOthers, agree); !fault.Is(err, fault.UnknownApproval) {
			t.Errorf("held for the caller, who decides on it no more: %v", err)
		}
	}
	id := heldID(t, w.fails(t, by("acme/ada", approved(late, yes)), fault.ApprovalRequired, fault.No))
	if err := decide("acme/root", id, true); err != nil {
		t.Errorf("held again, for others: %v", err)
	}
	mine := held("acme/ada")

	becomes(requires)
	if err := decide("acme/root", mine, true); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("held for others, who decide on it no more: %v", err)
	}
	if a := w.works(t, by("acme/ada", approved(other, yes))); a.Result == nil {
		t.Errorf("asked, required meanwhile: %+v", a)
	}
}

// A state that a service made is never taken for a person's approval, even if the policy asks for
// one by the time it comes back.
func TestServicesStateIsNoApproval(t *testing.T) {
	t.Parallel()
	w, becomes := governed(t, asks)
	ask := toolCall("remember", `{"a":1}`)
	ask.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
	q := w.works(t, by("acme/ada", ask)).InputRequired
	if q == nil {
		t.Fatal("the service asks nothing")
	}
	again := *ask
	again.RequestState = q.GetRequestState()
	again.InputResponses, _ = json.Marshal(map[string]any{"io.github.busbar-mcp/approval": json.RawMessage(yes), "q": json.RawMessage(yes)})
	becomes(requires)
	w.fails(t, &again, fault.InvalidParams, fault.No)
}
