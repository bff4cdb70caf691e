package gateway_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// byTenant accepts tenant/name as credentials; the token may bring a role.
type byTenant struct{}

func (byTenant) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	tenant, name, _ := strings.Cut(c.Bearer, "/")
	p := gateway.Principal{Name: name, Tenant: tenant}
	if strings.HasPrefix(name, "root") {
		p.Roles = []string{"admin"}
	}
	if name == "ada" {
		p.Roles = []string{"worker"}
	}
	return p, nil
}

const adminsApprove = `
roles:
  worker: {allow: ["tools/*"]}
  admin: {allow: [tools/echo], approve: ["tools/*"]}
require_approval: [tools/echo]
`

// openPolicy opens a policy, and returns the path of its file.
func openPolicy(t *testing.T, policy string) (live *access.Live, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := access.Open(path, bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	return live, path
}

// If the policy names approvers, they approve the calls of others in their tenant: not their own
// calls, and not calls of another tenant.
func TestSomebodyElseApproves(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live, path := openPolicy(t, adminsApprove)
	w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
		cfg.Approvals, cfg.Authenticator, cfg.Access, cfg.Sealer = approvals(t, url), byTenant{}, live, sealer(t, 1)
	})
	as := func(who string) gateway.Credentials { return gateway.Credentials{Bearer: who} }
	hold := func(who, tool string) string {
		t.Helper()
		c := toolCall(tool, `{"a":1}`)
		c.Credentials = as(who)
		// Its client could ask its user, who does not decide.
		c.Client = &busv1.Client{Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
		refused := w.fails(t, c, fault.ApprovalRequired, fault.No)
		if !strings.Contains(string(refused.Data), `"approver":"others"`) || !strings.HasPrefix(refused.Message, "another person than its caller") {
			t.Errorf("the caller is told %q, %s", refused.Message, refused.Data)
		}
		if !strings.Contains(refused.Next, "ask somebody who approves") {
			t.Errorf("a caller that cannot approve is sent on with %q", refused.Next)
		}
		return heldID(t, refused)
	}
	waits := func(who string) (n int) {
		t.Helper()
		all, err := w.gateway.Held(t.Context(), gateway.ForApproval, "desk", as(who))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	decide := func(who, id string, yes bool) (*gateway.Answer, error) {
		return approve(t, w.gateway, as(who), id, yes)
	}
	// Its caller is told that it cannot decide. The approver may not call the tool itself.
	if a, err := decide("acme/root", hold("acme/ada", "approved"), true); err != nil || a.Result == nil {
		t.Fatalf("%v, %v", a, err)
	}
	// Tools of the list need approval, too, and approvers do not approve their own calls.
	id := hold("acme/root", "echo")
	if _, err := decide("acme/root", id, true); !fault.Is(err, fault.UnknownApproval) || waits("acme/root") != 0 {
		t.Errorf("for itself: %v", err)
	}
	if _, err := decide("acme/root2", id, false); !fault.Is(err, fault.Forbidden) {
		t.Errorf("refused: %v", err)
	}
	if r := w.last(t); r.Principal.Name != "root" || r.Approval == nil || r.Approval.Agreed || r.Approval.By.Name != "root2" {
		t.Errorf("audited as %+v, approval %+v", r.Principal, r.Approval)
	}
	// A call that the policy has denied since does not run.
	id = hold("acme/ada", "echo")
	before := live.Now().Digest() // the file is read again and again
	if err := os.WriteFile(path, bytes.Replace([]byte(adminsApprove), []byte(`["tools/*"]}`), []byte(`["tools/*"], deny: [tools/echo]}`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the policy is another", func() bool { return live.Now().Digest() != before })
	ran := w.svc.Calls.Load()
	if _, err := decide("acme/root", id, true); !fault.Is(err, fault.UnknownTool) || w.svc.Calls.Load() != ran {
		t.Errorf("what is denied by now: %v", err)
	}
}
