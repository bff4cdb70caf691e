package gateway

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// ApprovalLife is how long a person has to agree to a call. Who says nothing
// has not agreed.
const ApprovalLife = 10 * time.Minute

// Approvals remember the calls that wait for a person, and which agreements
// were used.
type Approvals interface {
	// Hold keeps a call until it is taken, or for ApprovalLife.
	Hold(ctx context.Context, held *HeldCall) error
	// Held visits the calls of a principal that are held, in no order.
	Held(ctx context.Context, principal string, each func(*HeldCall)) error
	// Look returns a held call of a principal. For an id that is none, or another
	// principal's, or was taken, its error has reason UnknownApproval.
	Look(ctx context.Context, principal, id string) (*HeldCall, error)
	// Take is Look, but returns each call only once.
	Take(ctx context.Context, principal, id string) (*HeldCall, error)
	// Use reports whether a name is used for the first time.
	Use(ctx context.Context, name string) (bool, error)
}

// HeldCall is a call that waits for a person.
type HeldCall struct {
	ID             string         `json:"-"`
	Principal      string         `json:"principal"`
	Door           string         `json:"door"`
	Method         string         `json:"method"`
	Name           string         `json:"name"`
	Arguments      jsontext.Value `json:"arguments,omitzero"`
	Capabilities   jsontext.Value `json:"capabilities,omitzero"`
	IdempotencyKey string         `json:"idempotencyKey,omitzero"`
	Expires        time.Time      `json:"expires"`
}

// Approval is what a person said to a call.
type Approval struct {
	Agreed bool
	// By is whose word it is, Door how it came, which need not be the door of the
	// call.
	By   Principal
	Door string
	Time time.Time
}

// approvalKey is the input request by which a client's user is asked.
const approvalKey = "io.github.busbar-mcp/approval"

// What the state of a call that needs approval begins with: a question that is
// open, or one that was answered with yes. The name of the state follows, which
// is good for one use; after agreedAt when and through which door that was, as
// eight bytes and a text with its length in front; and then the state of the
// service.
const (
	asking   = 'a'
	agreed   = 'y' // of earlier releases
	agreedAt = 'Y'
)

// approve asks for tools that require a user's approval. A client that can be
// asked is, by elicitation; for any other the call is held, and the error says
// how to agree to it.
func approve(a Approvals) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		tool := c.Target.Tool
		if tool == nil || !tool.RequiresUserApproval || c.approved {
			return next(ctx, c, onFrame)
		}
		switch {
		case a == nil:
			return nil, fault.New(fault.Forbidden, "tool %s needs a person's approval for each call, which this edge cannot ask for", fault.Clip(c.Name))
		case !canElicit(c.Client):
			return nil, hold(ctx, a, c)
		case len(c.RequestState) == 0:
			return ask(c)
		}
		if err := proceed(ctx, a, c); err != nil {
			return nil, err
		}
		answer, err := next(ctx, c, onFrame)
		if err == nil && answer.InputRequired != nil {
			answer.InputRequired.RequestState = approvalState(agreedAt, append(c.Approval.state(), answer.InputRequired.RequestState...))
		}
		return answer, err
	}
}

// state is what of an approval travels with the call.
func (a *Approval) state() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(a.Time.UnixNano()))
	return append(append(b, byte(len(a.Door))), a.Door...)
}

// readAgreed is the inverse of state; nil for what is not from it.
func readAgreed(by Principal, state []byte) (*Approval, []byte) {
	if len(state) < 9 || len(state) < 9+int(state[8]) {
		return nil, nil
	}
	door := 9 + int(state[8])
	return &Approval{Agreed: true, By: by, Door: string(state[9:door]), Time: time.Unix(0, int64(binary.BigEndian.Uint64(state)))}, state[door:]
}

func approvalState(what byte, state []byte) []byte {
	b := append([]byte{what}, rand.Text()...)
	return append(b, state...)
}

// ask asks the client's user.
func ask(c *Call) (*Answer, error) {
	requests, err := json.Marshal(map[string]any{approvalKey: map[string]any{
		"method": "elicitation/create",
		"params": map[string]any{
			"mode":    "form",
			"message": "Let " + c.Name + " run with " + fault.Clip(string(c.Arguments)) + "?",
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
	return &Answer{InputRequired: &busv1.InputRequired{InputRequests: requests, RequestState: approvalState(asking, nil)}}, nil
}

// proceed reads what was said and leaves the call as its service expects it.
func proceed(ctx context.Context, a Approvals, c *Call) error {
	const name = 26 // that of rand.Text
	bad := fault.New(fault.InvalidParams, "params.requestState is not one that this server gave for this call; call again without it")
	if len(c.RequestState) < 1+name {
		return bad
	}
	what, id, rest := c.RequestState[0], string(c.RequestState[1:1+name]), c.RequestState[1+name:]
	var answers map[string]jsontext.Value
	if len(c.InputResponses) > 0 {
		if err := json.Unmarshal(c.InputResponses, &answers); err != nil {
			return fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
		}
	}
	switch what {
	case asking:
		err := readApproval(answers[approvalKey])
		c.Approval = &Approval{Agreed: err == nil, By: c.Principal, Door: c.Door, Time: time.Now()}
		if err != nil {
			if !fault.Is(err, fault.Forbidden) {
				c.Approval = nil // it says neither yes nor no
			}
			return err
		}
		delete(answers, approvalKey)
	case agreed:
		c.Approval = &Approval{Agreed: true, By: c.Principal, Door: c.Door}
	case agreedAt:
		if c.Approval, rest = readAgreed(c.Principal, rest); c.Approval == nil {
			return bad
		}
	default:
		return bad
	}
	first, err := a.Use(ctx, id)
	if err != nil {
		return err
	}
	if !first {
		return fault.New(fault.Conflict, "the approval was used already; call again without params.requestState")
	}
	c.RequestState, c.InputResponses = rest, nil
	if len(answers) > 0 {
		c.InputResponses, err = json.Marshal(answers, json.Deterministic(true))
	}
	return err
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

// hold keeps the call and says how to agree to it.
func hold(ctx context.Context, a Approvals, c *Call) error {
	held := &HeldCall{
		ID: rand.Text(), Principal: c.Principal.ID(), Door: c.Door, Method: c.Method, Name: c.Name, Arguments: c.Arguments,
		Capabilities: c.Client.GetCapabilities(), IdempotencyKey: c.IdempotencyKey, Expires: time.Now().Add(ApprovalLife).UTC(),
	}
	if err := a.Hold(ctx, held); err != nil {
		return err
	}
	data, err := json.Marshal(map[string]any{"approval": held.ID, "expires": held.Expires.Format(time.RFC3339)})
	if err != nil {
		return err
	}
	return fault.New(fault.ApprovalRequired, "tool %s needs a person's approval for this call; agree with POST /approvals/%s within %v",
		fault.Clip(c.Name), held.ID, ApprovalLife).With(data)
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
