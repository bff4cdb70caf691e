package gateway

import (
	"context"
	"errors"

	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/toolset"
)

// Access decides who may do what.
type Access interface {
	// Authorize decides on a call whose target is known: nil lets it pass, ErrUnseen
	// answers as if there were no such thing, and a *fault.Error with reason
	// Forbidden says that it is not theirs.
	Authorize(ctx context.Context, v View) error
	// View is what lists, searches and notifications show to a principal; nil for
	// everything.
	View(p Principal) catalogue.View
	// Approval decides whether somebody has to agree to a principal's call of a tool,
	// and who; says is what the tool itself says.
	Approval(p Principal, tool string, says bool) Demand
	// MayApprove reports whether somebody may agree to a call of a tool that a
	// principal, by its ID, has made.
	MayApprove(p Principal, requester, tool string) bool
	// Roles are those of a principal here, sorted.
	Roles(p Principal) []string
	// Approves reports whether somebody may agree to calls of others at all.
	Approves(p Principal) bool
	// ReadsTrail reports whether somebody may read the audit trail of its tenant.
	ReadsTrail(p Principal) bool
	// Toolset is the set of a name, for who may use it; nil for anybody else. Toolsets are
	// the names of those that somebody may use, sorted.
	Toolset(p Principal, name string) *toolset.Set
	Toolsets(p Principal) []string
	// Calls reports whether the tools of a service may call a tool, for whoever may
	// call that.
	Calls(service, tool string) bool
}

// ErrUnseen is what Access says of a name that its caller must not know of.
var ErrUnseen = errors.New("not for this principal")

// Demand is whose word a call of a tool needs before it runs.
type Demand struct {
	// Needed: somebody has to agree. Others: that is not the person behind who calls.
	Needed, Others bool
	// Waived: the tool says that somebody has to agree, and the policy that nobody has to.
	Waived bool
}

// Open is the Access of an edge without a policy: everybody may do everything, and
// agrees to its own calls.
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

// authorize decides whether who calls may call this. Of what is not there, and of
// what is not for them, the answer is the same.
func authorize(cfg *Config) link {
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			if r.missing != nil {
				return nil, cfg.absent(r.missing)
			}
			if r.isOwn() || r.Who != nil && r.approved == nil {
				// Of the edge's own, that shows what its caller may use, and no more. Of others, the
				// door has decided.
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

// demand is whose word a call needs.
func demand(a Access, v View) Demand {
	if v.Target.Tool == nil || v.isOwn() {
		return Demand{}
	}
	return a.Approval(v.Principal, v.Name, v.Target.Tool.RequiresUserApproval)
}
