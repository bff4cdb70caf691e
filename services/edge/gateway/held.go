package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
)

// maxHeld bounds a list of held calls.
const maxHeld = 1000

// Held returns the calls of a principal that wait for its agreement, the oldest
// first and at most 1,000, without their arguments.
func (g *Gateway) Held(ctx context.Context, door string, credentials Credentials) (all []*HeldCall, err error) {
	look := g.look(MethodApprovalsList, "", door, credentials)
	defer func() { look.done(ctx, err) }()
	who, err := look.authenticate(ctx)
	if err != nil || g.approvals == nil {
		return nil, err
	}
	now := time.Now().Add(-clockSlack)
	err = g.approvals.Held(ctx, who.ID(), func(held *HeldCall) {
		if held.Expires.After(now) {
			held.Arguments = nil // each may be large
			all = append(all, held)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *HeldCall) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(len(all), maxHeld)], nil
}

// FindHeld returns a call that waits for its principal's agreement, so that it
// may know what it agrees to. The error has reason UnknownApproval if none does.
func (g *Gateway) FindHeld(ctx context.Context, door string, credentials Credentials, id string) (held *HeldCall, err error) {
	look := g.look(MethodApprovalsGet, id, door, credentials)
	defer func() { look.done(ctx, err) }()
	who, err := look.authenticate(ctx)
	if err != nil {
		return nil, err
	}
	if g.approvals == nil {
		return nil, unknownApproval()
	}
	if held, err = g.approvals.Look(ctx, who.ID(), id); err != nil {
		return nil, err
	}
	return held, held.over()
}

// over is the error of a call whose time has passed.
func (h *HeldCall) over() error {
	if time.Now().Add(-clockSlack).After(h.Expires) {
		return unknownApproval()
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
	c *Call
}

func (g *Gateway) look(method, name, door string, credentials Credentials) look {
	return look{g, &Call{ID: bus.NewID(), Door: door, Method: method, Name: name, Credentials: credentials, Received: time.Now()}}
}

func (l look) authenticate(ctx context.Context) (who Principal, err error) {
	l.c.Principal, err = l.g.Authenticate(ctx, l.c.Credentials)
	if err == nil {
		l.c.payer = Payer(l.c.Principal, l.c.Credentials)
	}
	return l.c.Principal, err
}

func (l look) done(ctx context.Context, err error) {
	_ = record(ctx, l.g.auditor, l.c, &Answer{Result: &busv1.Result{}}, err)
}

// Approve carries out a held call, as who made it, if its principal agrees. That
// it does not is recorded as the end of a call, too. A call that fails before
// it runs is held again, for the rest of its time.
func (g *Gateway) Approve(ctx context.Context, door string, credentials Credentials, id string, yes bool, onFrame OnFrame) (*Answer, error) {
	who, err := g.Authenticate(ctx, credentials)
	if err != nil {
		return nil, err
	}
	if g.approvals == nil {
		return nil, unknownApproval()
	}
	held, err := g.approvals.Take(ctx, who.ID(), id)
	if err == nil {
		err = held.over()
	}
	if err != nil {
		return nil, err
	}
	c := &Call{
		Door: held.Door, Method: held.Method, Name: held.Name, Arguments: held.Arguments, Credentials: credentials,
		Client: &busv1.Client{Capabilities: held.Capabilities}, IdempotencyKey: held.IdempotencyKey, approved: held,
		WantsProgress: onFrame != nil, Approval: &Approval{Agreed: yes, By: who, Door: door, Time: time.Now()},
	}
	if !yes {
		c.payer = Payer(who, credentials)
		c.ID, c.Principal, c.Received = bus.NewID(), who, time.Now()
		return nil, record(ctx, g.auditor, c, nil, NotApproved())
	}
	answer, err := g.Do(ctx, c, onFrame)
	if nothingRan(err) && !errors.Is(err, errChanged) {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		// One that cannot be held again, also because its caller has no room left, has
		// to be made again, which is safe.
		_ = g.approvals.Return(after, held)
	}
	return answer, err
}
