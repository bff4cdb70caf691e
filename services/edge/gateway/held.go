package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Methods for the requests of people about held calls, as the audit trail names them; they are not
// methods of MCP.
const (
	MethodApprovalsList    = "busbar/approvals.list"
	MethodApprovalsGet     = "busbar/approvals.get"
	MethodElicitationsList = "busbar/elicitations.list"
	MethodElicitationsGet  = "busbar/elicitations.get"
)

// Ask is one of the two kinds of question for which calls are held. They differ in who decides and
// in the answer: a yes or no, or the forms in the Requests of the call, filled in.
type Ask struct {
	list, get string // methods
	// deciders are the deciders that the caller of a run may act as.
	deciders func(g *Gateway, r *run) []string
	// may reports whether a principal may decide on a call that waits for its decider.
	may     func(g *Gateway, who Principal, held *store.HeldCall) bool
	unknown func() error
}

var (
	// ForApproval asks whether a call may run: its caller or, if the policy says so, somebody else in
	// the tenant. The answer is yes or no.
	ForApproval = &Ask{
		list: MethodApprovalsList, get: MethodApprovalsGet,
		deciders: func(g *Gateway, r *run) []string {
			if !g.cfg.Access.Approves(r.Principal) {
				return []string{r.Principal.ID()}
			}
			return []string{r.Principal.ID(), store.Approvers(r.Principal.Tenant)}
		},
		may: func(g *Gateway, who Principal, held *store.HeldCall) bool {
			return g.cfg.Access.MayApprove(who, held.Principal, held.Name)
		},
		unknown: store.UnknownApproval,
	}
	// ForAnswers asks what the tool asks its caller, and nobody else.
	ForAnswers = &Ask{
		list: MethodElicitationsList, get: MethodElicitationsGet,
		deciders: func(_ *Gateway, r *run) []string { return []string{store.Asked(r.Account)} },
		may:      func(*Gateway, Principal, *store.HeldCall) bool { return true },
		unknown: func() error {
			return fault.New(fault.UnknownElicitation, "nothing with this id waits for your answer: it was answered already, its time is over, or it was never there; make the call again")
		},
	}
)

const (
	// maxHeld bounds a list of held calls.
	maxHeld = 1000
	// maxHeldArguments bounds the arguments of a held call, in bytes.
	//limit:message arguments of a call that is held for a person | `too_large`
	maxHeldArguments = 64 << 10
)

// The deciders of a held call, as "approver" of the error's data names them.
const (
	byCaller = "caller" // the person behind the caller
	byOthers = "others" // somebody whom the policy allows to approve, never the caller
)

// holdForApproval keeps the call for a person. A model reads the text of the error, so the text
// does not say how to approve; the data of the error does.
func (r *run) holdForApproval(ctx context.Context, cfg *Config) error {
	if len(r.Arguments) > maxHeldArguments {
		return fault.New(fault.TooLarge, "the arguments are %d bytes, and of a call that waits for a person at most %d are kept; "+
			"have the tool take a link to the data, or call from a client that asks its user (elicitation)", len(r.Arguments), maxHeldArguments)
	}
	held, who, by, next := &store.HeldCall{Tool: r.toolDigest()}, "a person", byCaller, ""
	if r.demand.Others {
		held.For, who, by = store.Approvers(r.Principal.Tenant), "another person than its caller", byOthers
		next = "ask somebody who approves calls of your tenant; you cannot approve it yourself"
	}
	until, data, err := r.hold(ctx, cfg, held, "approval", map[string]any{"approver": by})
	if err != nil {
		return err
	}
	return fault.New(fault.ApprovalRequired, "%s has to approve this call of tool %s; it is held until %s", who, fault.Clip(r.Name), until).With(data).Toward(next)
}

// hold keeps the call until somebody has decided. It returns until when, for people, and the data
// of the error that says so: about, with the id under a name.
func (r *run) hold(ctx context.Context, cfg *Config, held *store.HeldCall, name string, about map[string]any) (until string, data []byte, err error) {
	held.ID, held.Principal, held.Account, held.Expires = rand.Text(), r.Principal.ID(), r.Account, time.Now().Add(store.ApprovalLife).UTC()
	held.Door, held.Toolset, held.Method, held.Name, held.Title = r.Door, r.Credentials.Toolset, r.Method, r.Name, r.Target.Tool.Title
	held.Arguments, held.Capabilities, held.IdempotencyKey = r.Arguments, r.Client.GetCapabilities(), r.IdempotencyKey
	if e := r.Principal.Expires; !e.IsZero() && e.Before(held.Expires) {
		held.Expires = e.UTC() // it may run as its caller
	}
	if held.Caller, err = proto.Marshal(identity(r.Principal)); err != nil {
		return "", nil, err
	}
	if err := cfg.Approvals.Hold(ctx, held); err != nil {
		return "", nil, err
	}
	r.held = true
	about[name], about["expires"] = held.ID, held.Expires.Format(time.RFC3339)
	data, err = json.Marshal(about, json.Deterministic(true))
	return held.Expires.Format("15:04 UTC"), data, err
}

// look is a person's request about held calls, as the audit trail records it. It counts for limits.
func (g *Gateway) look(ctx context.Context, method, id, door string, credentials Credentials) (*run, error) {
	r := newRun(&Call{Door: door, Method: method, Name: id, Credentials: credentials}, nil)
	if _, err := g.entrance(ctx, r); err != nil {
		return r, fault.From(err)
	}
	return r, nil
}

func (g *Gateway) looked(ctx context.Context, r *run, err error) {
	_ = record(ctx, g.cfg.Auditor, r, &Answer{Result: &busv1.Result{}}, err)
}

// Held returns the calls that wait for a principal's decision, the oldest first and at most
// 1,000, without what may be large.
func (g *Gateway) Held(ctx context.Context, ask *Ask, door string, credentials Credentials) (all []*store.HeldCall, err error) {
	r, err := g.look(ctx, ask.list, "", door, credentials)
	defer func() { g.looked(ctx, r, err) }()
	if err != nil || g.cfg.Approvals == nil {
		return nil, err
	}
	for _, decider := range ask.deciders(g, r) {
		err := g.cfg.Approvals.Held(ctx, decider, func(held *store.HeldCall) {
			if over(held) == nil && ask.may(g, r.Principal, held) {
				held.Arguments, held.Requests, held.State = nil, nil, nil
				all = append(all, held)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *store.HeldCall) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(len(all), maxHeld)], nil
}

// FindHeld returns a call that a principal may decide on, so that it can see what about. The
// error has reason UnknownApproval or UnknownElicitation if no such call is held.
func (g *Gateway) FindHeld(ctx context.Context, ask *Ask, door string, credentials Credentials, id string) (held *store.HeldCall, err error) {
	r, err := g.look(ctx, ask.get, id, door, credentials)
	defer func() { g.looked(ctx, r, err) }()
	if err != nil {
		return nil, err
	}
	held, _, err = g.find(ctx, ask, r, id)
	return held, err
}

// find returns a call that the caller of r may decide on, and the decider that it acts as.
func (g *Gateway) find(ctx context.Context, ask *Ask, r *run, id string) (*store.HeldCall, string, error) {
	if g.cfg.Approvals == nil {
		return nil, "", ask.unknown()
	}
	unknown := ask.unknown()
	for _, decider := range ask.deciders(g, r) {
		held, err := g.cfg.Approvals.Look(ctx, decider, id)
		if err == nil {
			err = over(held)
		}
		switch {
		case err == nil && ask.may(g, r.Principal, held):
			return held, decider, nil
		case err != nil && !fault.Is(err, fault.UnknownApproval):
			return nil, "", err
		case err != nil && !nothingRan(err): // it was decided on
			unknown = ask.named(err)
		}
	}
	return nil, "", unknown
}

// take is find, and returns each call only once, if fits is nil for it.
func (g *Gateway) take(ctx context.Context, ask *Ask, r *run, id string, fits func(*store.HeldCall) error) (*store.HeldCall, error) {
	held, decider, err := g.find(ctx, ask, r, id)
	if err == nil {
		err = fits(held)
	}
	if err != nil {
		return nil, err
	}
	held, err = g.cfg.Approvals.Take(ctx, decider, id)
	return held, ask.named(err)
}

// named is an error of the store in the words of the kind.
func (a *Ask) named(err error) error {
	if fault.Is(err, fault.UnknownApproval) {
		return fault.From(a.unknown()).Ran(fault.From(err).Executed)
	}
	return err
}

// over is the error of a held call whose time has passed.
func over(held *store.HeldCall) error {
	if time.Now().Add(-store.ClockSlack).After(held.Expires) {
		return store.UnknownApproval()
	}
	return nil
}

// callerOf is the principal that made a held call.
func callerOf(held *store.HeldCall) Principal {
	who := &busv1.Identity{}
	if proto.Unmarshal(held.Caller, who) != nil { // the store's own bytes
		return Principal{}
	}
	return principalOf(who)
}

// Approve carries out a held call as its caller made it, if a person that may decide on it
// agrees. A refusal is recorded as the end of a call, too. A call that another person approves
// runs as its caller.
func (g *Gateway) Approve(ctx context.Context, door string, credentials Credentials, id string, yes bool, onFrame OnFrame) (*Answer, error) {
	who, err := g.Authenticate(ctx, credentials)
	if err != nil {
		return nil, err
	}
	held, err := g.take(ctx, ForApproval, &run{View: View{Principal: who}}, id, func(*store.HeldCall) error { return nil })
	if err != nil {
		return nil, err
	}
	r, caller := resumed(held, credentials, onFrame), who
	if held.For != "" {
		caller = callerOf(held)
		r.Who = func() (Principal, error) { return caller, nil }
		// The account of an anonymous caller is an address; the call counts for that.
		address, _ := strings.CutPrefix(held.Account, "@")
		r.Credentials = Credentials{Address: address, Toolset: held.Toolset}
	}
	r.approved, r.Approval = held, &Approval{Agreed: yes, By: who, Door: door, Time: time.Now()}
	if !yes {
		r.Principal, r.Account = caller, Account(caller, r.Credentials)
		return nil, record(ctx, g.cfg.Auditor, r, nil, NotApproved())
	}
	return g.resume(ctx, r, held)
}

// Answer continues a call whose tool asked its caller. responses is a JSON object of MCP's
// ElicitResults by key, which must match the questions. A call that asks for more is held again,
// under another id.
func (g *Gateway) Answer(ctx context.Context, door string, credentials Credentials, id string, responses []byte, onFrame OnFrame) (*Answer, error) {
	look, err := g.look(ctx, MethodElicitationsGet, id, door, credentials) // wrong answers count for limits, too
	if err != nil {
		return nil, err
	}
	held, err := g.take(ctx, ForAnswers, look, id, func(held *store.HeldCall) error { return checkResponses(held.Requests, responses) })
	if err != nil {
		return nil, err
	}
	r := resumed(held, credentials, onFrame)
	r.InputResponses, r.RequestState = responses, held.State
	return g.resume(ctx, r, held)
}

// resumed is a held call at the beginning of the chain.
func resumed(held *store.HeldCall, credentials Credentials, onFrame OnFrame) *run {
	credentials.Toolset = held.Toolset // for the record: the call is already resolved through the set
	r := newRun(&Call{
		Door: held.Door, Method: held.Method, Name: held.Name, Arguments: held.Arguments, Credentials: credentials,
		Client: &busv1.Client{Capabilities: held.Capabilities}, IdempotencyKey: held.IdempotencyKey, WantsProgress: onFrame != nil, AskLater: true,
	}, onFrame)
	r.found = true
	return r
}

// resume carries out a call that was decided on. If it fails before it runs, and does not wait
// for another decision, it is held again for the rest of its time.
func (g *Gateway) resume(ctx context.Context, r *run, held *store.HeldCall) (*Answer, error) {
	answer, err := g.do(ctx, r)
	if r.ranNot(err) && !r.held && !errors.Is(err, errChanged) {
		after, cancel := giveBack(ctx)
		defer cancel()
		// A call that cannot be held again, for example because its caller has no room left, has
		// to be made again, which is safe.
		_ = g.cfg.Approvals.Return(after, held)
	}
	return answer, err
}
