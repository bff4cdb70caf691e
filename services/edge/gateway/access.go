package gateway

import (
	"context"
	"errors"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// Access decides who may do what.
type Access interface {
	// Authorize decides on a call whose target is known. nil admits it. ErrUnseen answers as if
	// the target did not exist. A *fault.Error with reason Forbidden says that the caller may not
	// use it.
	Authorize(ctx context.Context, v View) error
	// View is the part of the catalogue that lists, searches and notifications show to a
	// principal; nil means everything.
	View(p Principal) catalogue.View
	// Approval decides whether a principal's call of a tool needs a person's approval, and whose.
	// says is the tool's own declaration.
	Approval(p Principal, tool string, says bool) Demand
	// MayApprove reports whether p may approve a call of a tool that requester, the ID of a
	// principal, has made.
	MayApprove(p Principal, requester, tool string) bool
	// Roles are the principal's roles here, sorted.
	Roles(p Principal) []string
	// Approves reports whether the principal may approve calls of others at all.
	Approves(p Principal) bool
	// ReadsTrail reports whether the principal may read the audit trail of its tenant.
	ReadsTrail(p Principal) bool
	// Toolset returns the toolset of a name if the principal may use it, and nil otherwise.
	// Toolsets are the names of all toolsets that it may use, sorted.
	Toolset(p Principal, name string) *toolset.Set
	Toolsets(p Principal) []string
	// Calls reports whether the tools of a service may call a tool, on behalf of callers that may
	// call it themselves.
	Calls(service, tool string) bool
}

// ErrUnseen is returned by Access for a name that the caller must not know of.
var ErrUnseen = errors.New("not for this principal")

// Demand says who must approve a call of a tool before it runs.
type Demand struct {
	// Needed: a person has to approve. Others: that must not be the person behind the caller.
	Needed, Others bool
	// Waived: the tool asks for approval, and the policy waives that.
	Waived bool
}

// Open is the Access of an edge without a policy: everybody may do everything, and approves their
// own calls.
type Open struct{}

// Authorize implements Access.
func (Open) Authorize(context.Context, View) error { return nil }

// View implements Access.
func (Open) View(Principal) catalogue.View { return nil }

// Approval implements Access.
func (Open) Approval(_ Principal, _ string, says bool) Demand { return Demand{Needed: says} }

// MayApprove implements Access.
func (Open) MayApprove(p Principal, requester, _ string) bool { return p.ID() == requester }

// Roles implements Access.
func (Open) Roles(Principal) []string { return nil }

// Approves implements Access.
func (Open) Approves(Principal) bool { return false }

// ReadsTrail implements Access.
func (Open) ReadsTrail(Principal) bool { return false }

// Toolset implements Access.
func (Open) Toolset(Principal, string) *toolset.Set { return nil }

// Toolsets implements Access.
func (Open) Toolsets(Principal) []string { return nil }

// Calls implements Access.
func (Open) Calls(string, string) bool { return true }

// authorize decides whether the caller may call the target. The answer is the same for a target
// that does not exist and for one that the caller may not see.
func authorize(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if r.missing != nil {
				return nil, cfg.absent(r.missing)
			}
			if r.isOwn() || r.Who != nil && r.approved == nil {
				// The edge's own tools show only what their caller may use. If the door knows the
				// caller, it has decided already.
				r.seen = true
				return next(ctx, r)
			}
			err := cfg.Access.Authorize(ctx, r.View)
			if errors.Is(err, ErrUnseen) {
				return nil, cfg.absent(unknown(r))
			}
			r.seen = true
			if err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

// demand says who must approve a call.
func demand(a Access, v View) Demand {
	if v.Target.Tool == nil || v.isOwn() {
		return Demand{}
	}
	return a.Approval(v.Principal, v.Name, v.Target.Tool.RequiresUserApproval)
}
