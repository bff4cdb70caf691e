package gateway_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/quota"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// from is a call of an anonymous client at an address.
func from(address, tool, arguments, key string) *gateway.Call {
	c := toolCall(tool, arguments)
	c.Credentials.Address, c.IdempotencyKey = address, key
	return c
}

// H1: an account with too many held calls is refused, and no other account is.
func TestH1HeldCallsOfOneAccountAreBounded(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
		approvals := approvals(t, url)
		approvals.Quota = quota.New("calls", 3, 4<<20)
		cfg.Approvals = approvals
	})
	var last string
	for range 3 {
		last = heldID(t, w.fails(t, from("192.0.2.1", "approved", `{}`, ""), fault.ApprovalRequired, fault.No))
	}
	if f := w.fails(t, from("192.0.2.1", "approved", `{}`, ""), fault.RateLimited, fault.No); f.RetryAfter <= 0 {
		t.Errorf("it does not say when to come back: %v", f)
	}
	w.fails(t, from("192.0.2.2", "approved", `{}`, ""), fault.ApprovalRequired, fault.No)
	if _, err := approve(t, w.gateway, gateway.Credentials{Address: "192.0.2.1"}, last, true); err != nil {
		t.Fatal(err)
	}
	w.fails(t, from("192.0.2.1", "approved", `{}`, ""), fault.ApprovalRequired, fault.No)
}

// H1: used approvals count for their account: their names stay in the bucket of all edges for two
// hours.
func TestH1UsedApprovalsOfOneAccountAreBounded(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	w := startOn(t, url, func(w *world, cfg *gateway.Config) {
		approvals := approvals(t, url)
		approvals.Traces = quota.New("decided calls", 2, 1<<20)
		cfg.Approvals, cfg.Authenticator, cfg.Sealer = approvals, w, sealer(t, 1)
	})
	asked := func(who string) *gateway.Call {
		c := approved(nil, "")
		c.Credentials.Bearer = who
		c = approved(w.works(t, c).InputRequired.GetRequestState(), yes)
		c.Credentials.Bearer = who
		return c
	}
	for range 2 {
		w.works(t, asked("ada"))
	}
	w.fails(t, asked("ada"), fault.RateLimited, fault.No)
	w.works(t, asked("bob"))
	if n := w.svc.Calls.Load(); n != 3 {
		t.Errorf("%d calls ran", n)
	}
}

// H1: a held call that is given back is counted again, and discarded if its caller has filled the
// room meanwhile: failing calls do not fill the bucket of all edges.
func TestH1HeldCallsThatAreGivenBackAreCounted(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	approvals := approvals(t, url)
	approvals.Quota = quota.New("calls", 3, 4<<20)
	var held []*store.HeldCall
	hold := func() error {
		h := &store.HeldCall{ID: rand.Text(), Principal: "ada", Account: "ada", Arguments: []byte(`{}`), Expires: time.Now().Add(time.Minute)}
		err := approvals.Hold(t.Context(), h)
		if err == nil {
			held = append(held, h)
		}
		return err
	}
	for range 3 {
		if err := hold(); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range held {
		taken, err := approvals.Take(t.Context(), "ada", h.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := approvals.Return(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
	}
	if err := hold(); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a fourth, while three are given back: %v", err)
	}
	taken, err := approvals.Take(t.Context(), "ada", held[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := hold(); err != nil {
		t.Errorf("in the room of one that is taken: %v", err)
	}
	if err := approvals.Return(t.Context(), taken); !fault.Is(err, fault.RateLimited) {
		t.Errorf("given back without room: %v", err)
	}
	if _, err := approvals.Look(t.Context(), "ada", taken.ID); !fault.Is(err, fault.UnknownApproval) {
		t.Errorf("it is held all the same: %v", err)
	}
	if _, err := approvals.Take(t.Context(), "ada", held[1].ID); err != nil {
		t.Error(err)
	}
	if err := hold(); err != nil {
		t.Errorf("once another is taken: %v", err)
	}
}

// H1: an account with too many kept keys is refused before anything runs. If it has too many
// results, only the fact that the calls ran is kept.
func TestH1KeysOfOneAccountAreBounded(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	var outcomes *store.Outcomes
	w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
		outcomes = store.NewOutcomes(bustest.Connect(t, url))
		cfg.Deduplicator = gateway.NewKeys(outcomes, cfg.Caller, cfg.Tasks)
	})
	outcomes.Quota = quota.New("keys", 3, 4<<20)
	for i := range 3 {
		w.works(t, from("192.0.2.1", "safe", `{}`, fmt.Sprint(i)))
	}
	if f := w.fails(t, from("192.0.2.1", "safe", `{}`, "one more"), fault.RateLimited, fault.No); f.RetryAfter <= 0 {
		t.Errorf("it does not say when to come back: %v", f)
	}
	w.works(t, from("192.0.2.1", "safe", `{}`, "2")) // a repetition takes no room
	w.works(t, from("192.0.2.2", "safe", `{}`, "of somebody else"))
	if n := w.svc.Calls.Load(); n != 4 {
		t.Errorf("%d calls ran, want 4", n)
	}

	outcomes.Quota = quota.New("keys", 100, 100<<10)
	large := `{"x":"` + strings.Repeat("x", 30<<10) + `"}`
	for i := range 6 {
		w.works(t, from("192.0.2.3", "mirror", large, fmt.Sprint("l", i)))
	}
	// The instance still has the result.
	w.works(t, from("192.0.2.3", "mirror", large, "l5"))
	if n := w.svc.Calls.Load(); n != 10 {
		t.Errorf("%d calls ran, want 10", n)
	}
}
