package gateway

import (
	"cmp"
	"context"
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

const (
	// maxHeld bounds a list of held calls.
	maxHeld = 1000
	// maxHeldArguments bounds the arguments of a call that is held, bytes.
	//limit:message arguments of a call that is held for a person | `too_large`
	maxHeldArguments = 64 << 10
)

// Who decides on a held call, as "approver" of the error's data says it.
const (
	byCaller = "caller" // the person behind who made it
	byOthers = "others" // somebody whom the policy lets, never who made it
)

// hold keeps the call for a person. The text of the error is what a model reads:
// it does not say how to agree, which the error's data does.
func (r *run) hold(ctx context.Context, cfg *Config) error {
	if len(r.Arguments) > maxHeldArguments {
		return fault.New(fault.TooLarge, "the arguments are %d bytes, and of a call that waits for a person at most %d are kept; "+
			"have the tool take a link to the data, or call from a client that asks its user (elicitation)", len(r.Arguments), maxHeldArguments)
	}
	caller, err := proto.Marshal(identity(r.Principal))
	if err != nil {
		return err
	}
	held := r.heldCall("")
	held.Caller, held.Tool = caller, r.toolDigest()
	if r.demand.Others {
		held.For = store.Approvers(r.Principal.Tenant)
	}
	if err := cfg.Approvals.Hold(ctx, held); err != nil {
		return err
	}
	who, by := "a person", byCaller
	if held.For != "" {
		who, by = "another person than its caller", byOthers
	}
	data, err := json.Marshal(map[string]any{"approval": held.ID, "expires": held.Expires.Format(time.RFC3339), "approver": by}, json.Deterministic(true))
	if err != nil {
		return err
	}
	f := fault.New(fault.ApprovalRequired, "%s has to approve this call of tool %s; it is held until %s",
		who, fault.Clip(r.Name), held.Expires.Format("15:04 UTC")).With(data)
	if held.For != "" {
		f = f.Toward("ask somebody who approves calls of your tenant; you cannot approve it yourself")
	}
	return f
}

// Held returns the calls that somebody may decide on: its own, or where the policy
// says so those of others of its tenant; the oldest first and at most 1,000, without
// their arguments.
func (g *Gateway) Held(ctx context.Context, door string, credentials Credentials) (all []*store.HeldCall, err error) {
	look := g.look(MethodApprovalsList, "", door, credentials)
	defer func() { look.done(ctx, err) }()
	who, err := look.authenticate(ctx)
	if err != nil || g.cfg.Approvals == nil {
		return nil, err
	}
	for _, decider := range g.deciders(who) {
		err := g.cfg.Approvals.Held(ctx, decider, func(held *store.HeldCall) {
			if over(held) == nil && g.mayApprove(who, held) {
				held.Arguments = nil // each may be large
				all = append(all, held)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return oldest(all), nil
}

// oldest are those at the head of a list of held calls.
func oldest(all []*store.HeldCall) []*store.HeldCall {
	slices.SortFunc(all, func(a, b *store.HeldCall) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(len(all), maxHeld)]
}

// deciders are those as whom somebody decides.
func (g *Gateway) deciders(who Principal) []string {
	if !g.cfg.Access.Approves(who) {
		return []string{who.ID()}
	}
	return []string{who.ID(), store.Approvers(who.Tenant)}
}

func (g *Gateway) mayApprove(who Principal, held *store.HeldCall) bool {
	return g.cfg.Access.MayApprove(who, held.Principal, held.Name)
}

// FindHeld returns a call that somebody may decide on, so that it may know what it
// agrees to. The error has reason UnknownApproval if there is none.
func (g *Gateway) FindHeld(ctx context.Context, door string, credentials Credentials, id string) (held *store.HeldCall, err error) {
	look := g.look(MethodApprovalsGet, id, door, credentials)
	defer func() { look.done(ctx, err) }()
	who, err := look.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	held, _, err = g.findHeld(ctx, who, id)
	return held, err
}

// findHeld returns a call that somebody may decide on, and as whom it does.
func (g *Gateway) findHeld(ctx context.Context, who Principal, id string) (*store.HeldCall, string, error) {
	if g.cfg.Approvals == nil {
		return nil, "", store.UnknownApproval()
	}
	unknown := store.UnknownApproval()
	for _, decider := range g.deciders(who) {
		held, err := g.cfg.Approvals.Look(ctx, decider, id)
		switch {
		case err == nil && g.mayApprove(who, held):
			return held, decider, over(held)
		case err != nil && !fault.Is(err, fault.UnknownApproval):
			return nil, "", err
		case err != nil && !nothingRan(err): // it was decided on
			unknown = err
		}
	}
	return nil, "", unknown
}

// over is the error of a held call whose time has passed.
func over(held *store.HeldCall) error {
	if time.Now().Add(-store.ClockSlack).After(held.Expires) {
		return store.UnknownApproval()
	}
	return nil
}

// Methods of what people do about approvals, as the audit trail names it; they
// are no methods of MCP.
const (
	MethodApprovalsList = "busbar/approvals.list"
	MethodApprovalsGet  = "busbar/approvals.get"
)

// look is somebody looking at held calls, for the record.
type look struct {
	g *Gateway
	r *run
}

func (g *Gateway) look(method, name, door string, credentials Credentials) look {
	return look{g, newRun(&Call{Door: door, Method: method, Name: name, Credentials: credentials}, nil)}
}

func (l look) authenticate(ctx context.Context) (Principal, error) {
	if _, err := l.g.entrance(ctx, l.r); err != nil {
		return Principal{}, fault.From(err)
	}
	return l.r.Principal, nil
}

func (l look) done(ctx context.Context, err error) {
	_ = record(ctx, l.g.cfg.Auditor, l.r, &Answer{Result: &busv1.Result{}}, err)
}

// callerOf is who made a held call.
func callerOf(held *store.HeldCall) Principal {
	who := &busv1.Identity{}
	if proto.Unmarshal(held.Caller, who) != nil { // the store's own bytes
		return Principal{}
	}
	return principalOf(who)
}

// Approve carries out a held call as its caller made it, if who may decide on it
// agrees; a refusal is recorded as the end of a call, too. One that somebody else
// agrees to runs as its caller. A call that fails before it runs is held again, for
// the rest of its time.
func (g *Gateway) Approve(ctx context.Context, door string, credentials Credentials, id string, yes bool, onFrame OnFrame) (*Answer, error) {
	who, err := g.Authenticate(ctx, credentials)
	if err != nil {
		return nil, err
	}
	held, decider, err := g.findHeld(ctx, who, id)
	if err == nil {
		held, err = g.cfg.Approvals.Take(ctx, decider, id)
	}
	if err != nil {
		return nil, err
	}
	c := &Call{
		Door: held.Door, Method: held.Method, Name: held.Name, Arguments: held.Arguments, Credentials: credentials,
		Client: &busv1.Client{Capabilities: held.Capabilities}, IdempotencyKey: held.IdempotencyKey, WantsProgress: onFrame != nil, AskLater: true,
	}
	caller := who
	if decider != who.ID() {
		caller = callerOf(held)
		c.Who = func() (Principal, error) { return caller, nil }
		// Of an anonymous caller, the address is whose share the call takes.
		address, _ := strings.CutPrefix(held.Account, "@")
		c.Credentials = Credentials{Address: address}
	}
	c.Credentials.Toolset = held.Toolset // for the record: the call is what the set made of it
	r := newRun(c, onFrame)
	r.found, r.approved, r.Approval = true, held, &Approval{Agreed: yes, By: who, Door: door, Time: time.Now()}
	if !yes {
		r.Principal, r.Account = caller, Account(caller, c.Credentials)
		return nil, record(ctx, g.cfg.Auditor, r, nil, NotApproved())
	}
	answer, err := g.do(ctx, r)
	if r.ranNot(err) && !errors.Is(err, errChanged) && !fault.Is(err, fault.InputRequired) {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		// One that cannot be held again, also because its caller has no room left, has
		// to be made again, which is safe.
		_ = g.cfg.Approvals.Return(after, held)
	}
	return answer, err
}
