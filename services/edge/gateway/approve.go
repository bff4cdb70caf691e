package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Approvals remember the calls that wait for a person, and which agreements
// were used.
type Approvals interface {
	// Hold keeps a call until it is taken, or for store.ApprovalLife.
	Hold(ctx context.Context, held *store.HeldCall) error
	// Held visits the calls that are held for who decides on them, in no order: a
	// principal by its ID, or store.Approvers.
	Held(ctx context.Context, decider string, each func(*store.HeldCall)) error
	// Look returns one of them. For an unknown id, one that is for somebody else, or a
	// call that was taken, its error has reason UnknownApproval.
	Look(ctx context.Context, decider, id string) (*store.HeldCall, error)
	// Take is Look, but returns each call only once.
	Take(ctx context.Context, decider, id string) (*store.HeldCall, error)
	// Return undoes Take for a call that did not run.
	Return(ctx context.Context, held *store.HeldCall) error
	// Use reports whether a name is used for the first time. The account's share of the
	// room bounds how many are; its error has reason RateLimited then.
	Use(ctx context.Context, payer, name string) (bool, error)
	// Unuse undoes Use for an agreement to a call that did not run.
	Unuse(ctx context.Context, name string) error
}

// Approval is what a person said to a call.
type Approval struct {
	Agreed bool
	// Waived: nobody was asked, because the policy says so. Nothing else is set then.
	Waived bool
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
// is good for one use, and the digest of the tool that was agreed to; after agreedAt
// when and through which door that was, as eight bytes and a text with its length
// in front; after agreedBy, of somebody else than the caller, a busv1.Identity first,
// with two bytes of length; and then the state of the service.
const (
	asking   = 'a'
	agreed   = 'y' // of earlier releases
	agreedAt = 'Y'
	agreedBy = 'B'
)

// The length of the name, that of rand.Text, and of the digest.
const approvalName, approvalDigest = 26, sha256.Size

// giveBackTime bounds giving an approval back after a call that did not run,
// which goes on when the client has left.
const giveBackTime = 2 * time.Second

// approve asks for tools that require a user's approval. A client that can be
// asked is, by elicitation; for any other the call is held, and the error says
// how to agree to it. So it is where somebody else than the caller has to agree.
//
// An approval is used up by a call that may have run: one that did not gives it
// back. It is for the tool as it was when the person was asked.
func approve(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			switch {
			case r.approved != nil && !bytes.Equal(r.approved.Tool, r.toolDigest()):
				return nil, r.changed()
			case r.approved != nil:
				answer, err := next(ctx, r)
				r.carryOn(answer)
				return answer, err
			case cfg.Approvals == nil:
				return nil, fault.New(fault.Forbidden, "tool %s needs a person's approval for each call, which this edge cannot ask for", fault.Clip(r.Name))
			case r.mustHold():
				return nil, r.hold(ctx, cfg)
			case !r.ofApproval && len(r.RequestState) > 0:
				return nil, r.noState() // of a call that began before the policy asked for approval
			case !r.ofApproval:
				question, err := r.ask()
				if err == nil && r.Stream != nil {
					cfg.Caller.Asked(ctx, r.Stream, question)
				}
				return &Answer{InputRequired: question}, err
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
				after, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
				defer cancel()
				// One that cannot be given back counts as used, which is safe.
				_ = cfg.Approvals.Unuse(after, used)
			}
			return answer, err
		}
	}
}

// mustHold reports whether the call has to be held for who agrees to it: where that is
// not who makes it, nobody can be asked on the way, or the door asks later. Who was
// asked by such a door has agreed already.
func (r *run) mustHold() bool {
	if r.demand.Others {
		return !r.ofApproval || len(r.RequestState) == 0 || r.RequestState[0] != agreedBy
	}
	return r.demand.Needed && (!canElicit(r.Client) || r.AskLater && !r.ofApproval)
}

// carryOn has what a person said count for the rest of a call that asks more.
func (r *run) carryOn(answer *Answer) {
	if answer == nil || answer.InputRequired == nil {
		return
	}
	what, state := byte(agreedAt), r.Approval.state()
	if r.Approval.By.ID() != r.Principal.ID() {
		by, _ := proto.Marshal(&busv1.Identity{Principal: r.Approval.By.Name, Tenant: r.Approval.By.Tenant}) // of two texts
		what, state = agreedBy, append(append(binary.BigEndian.AppendUint16(nil, uint16(len(by))), by...), state...)
	}
	answer.InputRequired.RequestState = r.approvalState(what, append(state, answer.InputRequired.RequestState...))
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

// readBy reads who agreed in place of the caller.
func readBy(state []byte) (Principal, []byte, error) {
	who := &busv1.Identity{}
	if len(state) < 2 || len(state) < 2+int(binary.BigEndian.Uint16(state)) {
		return Principal{}, nil, io.ErrUnexpectedEOF
	}
	end := 2 + int(binary.BigEndian.Uint16(state))
	err := proto.Unmarshal(state[2:end], who)
	return principalOf(who), state[end:], err
}

// nothingRan reports whether a call failed before it had any effect.
func nothingRan(err error) bool { return err != nil && fault.From(err).Executed == fault.No }

// toolDigest is the digest of what a person agrees to run.
func (r *run) toolDigest() []byte { return digest(r.Target.Service, r.Target.Definition) }

// errChanged marks an approval of a tool that is another one by now.
var errChanged = errors.New("the tool has changed since the approval was asked for")

func (r *run) changed() error {
	return fault.New(fault.Conflict, "the tool has changed since the person was asked; %s to have it looked at again", r.again()).
		Because(errChanged)
}

// again is how the call is made from its beginning, in the words of its door.
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

func (r *run) approvalState(what byte, state []byte) []byte {
	r.ofApproval = true
	b := append([]byte{what}, rand.Text()...)
	return append(append(b, r.toolDigest()...), state...)
}

// ask asks the client's user.
func (r *run) ask() (*busv1.InputRequired, error) {
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
	return &busv1.InputRequired{InputRequests: requests, RequestState: r.approvalState(asking, nil)}, nil
}

// proceed reads what was said and leaves the call as its service expects it. It
// returns the name of the approval, which is used from now on.
func (r *run) proceed(ctx context.Context, a Approvals) (used string, err error) {
	bad := r.noState()
	if len(r.RequestState) < 1+approvalName+approvalDigest {
		return "", bad
	}
	what, id, rest := r.RequestState[0], string(r.RequestState[1:1+approvalName]), r.RequestState[1+approvalName:]
	tool, rest := rest[:approvalDigest], rest[approvalDigest:]
	var answers map[string]jsontext.Value
	if len(r.InputResponses) > 0 {
		if err := json.Unmarshal(r.InputResponses, &answers); err != nil {
			return "", fault.New(fault.InvalidParams, "params.inputResponses must be an object").Because(err)
		}
	}
	switch what {
	case asking:
		err := readApproval(answers[approvalKey])
		r.Approval = &Approval{Agreed: err == nil, By: r.Principal, Door: r.Door, Time: time.Now()}
		if err != nil {
			if !fault.Is(err, fault.Forbidden) {
				r.Approval = nil // it says neither yes nor no
			}
			return "", err
		}
		delete(answers, approvalKey)
	case agreed:
		r.Approval = &Approval{Agreed: true, By: r.Principal, Door: r.Door}
	case agreedBy:
		var by Principal
		if by, rest, err = readBy(rest); err != nil {
			return "", bad
		}
		if r.Approval, rest = readAgreed(by, rest); r.Approval == nil {
			return "", bad
		}
	case agreedAt:
		if r.Approval, rest = readAgreed(r.Principal, rest); r.Approval == nil {
			return "", bad
		}
	default:
		return "", bad
	}
	if !bytes.Equal(tool, r.toolDigest()) {
		return "", r.changed()
	}
	var left []byte
	if len(answers) > 0 {
		if left, err = json.Marshal(answers, json.Deterministic(true)); err != nil {
			return "", err
		}
	}
	first, err := a.Use(ctx, r.Account, id)
	if err != nil {
		return "", err
	}
	if !first {
		// By this call, when its client lost the answer, or by another one.
		return "", fault.New(fault.Conflict, "the approval was used already, and the call that used it may have run; %s to be asked again", r.again()).Ran(fault.Unknown)
	}
	r.RequestState, r.InputResponses = rest, left
	return id, nil
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
