package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Approvals remember the calls that wait for a person, and the approvals that were used.
type Approvals interface {
	// Hold keeps a call until it is taken, at most for store.ApprovalLife.
	Hold(ctx context.Context, held *store.HeldCall) error
	// Held visits, in no order, the calls that a decider decides on: a principal by its ID,
	// store.Approvers or store.Asked.
	Held(ctx context.Context, decider string, each func(*store.HeldCall)) error
	// Look returns one of them. Its error has reason UnknownApproval if the id is unknown, if
	// another decider decides on the call, or if the call was taken.
	Look(ctx context.Context, decider, id string) (*store.HeldCall, error)
	// Take is Look, but returns each call only once.
	Take(ctx context.Context, decider, id string) (*store.HeldCall, error)
	// Return undoes Take for a call that did not run.
	Return(ctx context.Context, held *store.HeldCall) error
	// Use reports whether a name is used for the first time. The account's share of the room
	// bounds these names; beyond it, the error has reason RateLimited.
	Use(ctx context.Context, account, name string) (bool, error)
	// Unuse undoes Use for an approval of a call that did not run.
	Unuse(ctx context.Context, name string) error
}

// Approval is a person's answer to a call.
type Approval struct {
	Agreed bool
	// Waived: nobody was asked, because the policy waives it. Nothing else is set then.
	Waived bool
	// By is the person, and Door the door of the answer, which need not be the door of the call.
	By   Principal
	Door string
	Time time.Time
}

// approvalKey is the key of the input request that asks a client's user.
const approvalKey = "io.github.busbar-mcp/approval"

// giveBack bounds giving back the approval of a call that did not run. That goes on if the client
// has left.
func giveBack(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
}

// approve asks a person about tools that require approval. A client that supports elicitation is
// asked on the way. For any other client, and for every call that another person has to approve,
// the call is held, and the error says how to approve it.
//
// A call that may have run uses up its approval; a call that did not run gives it back. An
// approval is for the tool as it was when the person was asked.
func approve(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			switch {
			case r.approved != nil && !bytes.Equal(r.approved.Tool, r.toolDigest()):
				return nil, r.changed()
			case r.approved != nil: // fault:nobody-asked
				answer, err := next(ctx, r)
				r.carryOn(answer)
				return answer, err
			case cfg.Approvals == nil:
				return nil, fault.New(fault.Forbidden, "tool %s needs a person's approval for each call, which this edge cannot ask for", fault.Clip(r.Name))
			case r.mustHold():
				return nil, r.holdForApproval(ctx, cfg)
			case r.consent == nil && len(r.RequestState) > 0:
				return nil, r.noState() // of a call that began before the policy asked for approval
			case r.consent == nil:
				return r.ask(ctx, cfg)
			}
			used, err := r.proceed(ctx, cfg.Approvals)
			if err != nil {
				return nil, err
			}
			answer, err := next(ctx, r)
			switch {
			case err == nil:
				r.carryOn(answer)
			case nothingRan(err):
				after, cancel := giveBack(ctx)
				defer cancel()
				// An approval that cannot be given back counts as used, which is safe.
				_ = cfg.Approvals.Unuse(after, used)
			}
			return answer, err
		}
	}
}

// mustHold reports whether the call has to be held for a person. That is so if another person
// than the caller has to approve it, if nobody can be asked on the way, or if the door asks
// later. A call that was approved after it was held is not held again.
func (r *run) mustHold() bool {
	if r.demand.Others {
		return r.consent == nil || r.consent.By == "" || r.consent.By == r.Principal.ID()
	}
	return r.demand.Needed && (!canElicit(r.Client) || r.AskLater && r.consent == nil)
}

// carryOn keeps a person's answer valid for the rest of a call that asks for more input.
func (r *run) carryOn(answer *Answer) {
	if answer != nil && answer.InputRequired != nil {
		r.consent = r.newConsent(r.Approval)
	}
}

// nothingRan reports whether a call failed before it had any effect.
func nothingRan(err error) bool { return err != nil && fault.From(err).Executed == fault.No }

// toolDigest is the digest of the tool that a person approves.
func (r *run) toolDigest() []byte { return digest(r.Target.Service, r.Target.Definition) }

// errChanged marks an approval of a tool that has changed since.
var errChanged = errors.New("the tool has changed since the approval was asked for")

func (r *run) changed() error {
	return fault.New(fault.Conflict, "the tool has changed since the person was asked; %s to have it looked at again", r.again()).
		Because(errChanged)
}

// again says how to make the call from its beginning, in the words of its door.
func (r *run) again() string {
	if r.AskLater {
		return "make the call again"
	}
	return "make the call again, without params.requestState,"
}

func (r *run) noState() error {
	if r.AskLater {
		return fault.New(fault.InvalidParams, "the tool, or what its calls need, has changed since it asked; make the call again")
	}
	return fault.New(fault.InvalidParams, "params.requestState is not one that this server gave for this call, it is too old, or the tool has changed since; call again without it")
}

// ask asks the client's user.
func (r *run) ask(ctx context.Context, cfg *Config) (*Answer, error) {
	requests, err := json.Marshal(map[string]any{approvalKey: map[string]any{
		"method": "elicitation/create",
		"params": map[string]any{
			"mode":    "form",
			"message": Show(r.Name, r.Target.Tool.Title, r.Arguments),
			"requestedSchema": map[string]any{
				"type":       "object",
				"properties": map[string]any{"approve": map[string]any{"type": "boolean", "title": "Let it run"}},
				"required":   []string{"approve"},
			},
		},
	}}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	r.consent = r.newConsent(nil)
	if r.Stream != nil {
		kept, err := json.Marshal(r.consent)
		if err != nil {
			return nil, err
		}
		cfg.Caller.Asked(ctx, r.Stream, &busv1.InputRequired{InputRequests: requests, RequestState: kept})
	}
	return &Answer{InputRequired: &busv1.InputRequired{InputRequests: requests}}, nil
}

// proceed takes up a call that comes back from the client with its consent, and leaves the input
// responses that are for the service. An open question has its answer among the input responses;
// a refusal is recorded in r.Approval and ends the call here. The order of the checks matters: the
// person must agree, and the tool must still be the one that the person saw. Only then is the name
// of the consent used up, in the bucket of all edges, so that it admits one call. used is that
// name; approve gives it back with Unuse if nothing ran.
func (r *run) proceed(ctx context.Context, a Approvals) (used string, err error) {
	var answers map[string]jsontext.Value
	if len(r.InputResponses) > 0 {
		if err := json.Unmarshal(r.InputResponses, &answers); err != nil {
			return "", fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
		}
	}
	c := r.consent
	if c.By == "" {
		err := readApproval(answers[approvalKey])
		r.Approval = &Approval{Agreed: err == nil, By: r.Principal, Door: r.Door, Time: time.Now()}
		if err != nil {
			if !fault.Is(err, fault.Forbidden) {
				r.Approval = nil // the answer is neither yes nor no
			}
			return "", err
		}
		delete(answers, approvalKey)
	} else {
		r.Approval = &Approval{Agreed: true, By: Principal{Name: NameOf(c.By), Tenant: TenantOf(c.By)}, Door: c.Door, Time: c.Time}
	}
	if !bytes.Equal(c.Tool, r.toolDigest()) {
		return "", r.changed()
	}
	var left []byte
	if len(answers) > 0 {
		if left, err = json.Marshal(answers, json.Deterministic(true)); err != nil {
			return "", err
		}
	}
	first, err := a.Use(ctx, r.Account, c.Name)
	if err != nil {
		return "", err
	}
	if !first {
		// By this call, if its client lost the answer, or by another one.
		return "", fault.New(fault.Conflict, "the approval was used already, and the call that used it may have run; %s to be asked again", r.again()).Ran(fault.Unknown)
	}
	r.InputResponses = left
	return c.Name, nil
}

func readApproval(answer jsontext.Value) error {
	var said struct {
		Action  string `json:"action"`
		Content struct {
			Approve bool `json:"approve,omitzero"`
		} `json:"content,omitzero"`
	}
	if json.Unmarshal(answer, &said) != nil {
		return fault.New(fault.InvalidParams, "params.inputResponses has no valid answer for %s", approvalKey)
	}
	if said.Action != "accept" || !said.Content.Approve {
		return NotApproved()
	}
	return nil
}

// NotApproved refuses a call that a person did not agree to.
func NotApproved() *fault.Error {
	return fault.New(fault.Forbidden, "the user did not approve the call")
}

// canElicit reports whether a client's user can be asked with a form.
func canElicit(c *busv1.Client) bool {
	var all struct {
		Elicitation map[string]jsontext.Value `json:"elicitation,omitzero"`
	}
	if json.Unmarshal(c.GetCapabilities(), &all) != nil || all.Elicitation == nil {
		return false
	}
	_, form := all.Elicitation["form"]
	return form || len(all.Elicitation) == 0
}
