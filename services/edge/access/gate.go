package access

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// MissingScope means that a call was refused but a token with this scope could make it.
// It is wrapped in the fault.
type MissingScope struct{ Scope string }

// Error implements error.
func (e MissingScope) Error() string { return "insufficient_scope: " + e.Scope }

// missing is the error of a call that a scope would allow; it says how to get the scope.
func (l *Live) missing(scope string) error {
	if f := l.challenge.Load(); f != nil {
		return errors.Join(MissingScope{scope}, (*f)(scope))
	}
	return MissingScope{scope}
}

// Authorize implements gateway.Access.
func (l *Live) Authorize(_ context.Context, v gateway.View) error {
	switch t, of := about(&v); of {
	case aTarget:
		return l.authorize(&v, &t)
	case theEdge:
		return nil
	}
	return gateway.ErrUnseen
}

func (l *Live) authorize(v *gateway.View, t *Target) error {
	p := l.Now()
	var buf [8]*role
	roles := p.rolesOf(&v.Principal, buf[:0])
	if !decide(roles, t).Allowed {
		// A caller without a token has no scopes either.
		if v.Principal.Scopes == nil {
			return gateway.ErrUnseen
		}
		scope := p.missing(&v.Principal, t)
		if scope == "" {
			return gateway.ErrUnseen
		}
		data, err := json.Marshal(map[string]string{"scope": scope})
		if err != nil {
			return err
		}
		return fault.New(fault.Forbidden, "the token lacks scope %s for this", scope).With(data).Because(l.missing(scope))
	}
	if len(p.conditions) == 0 {
		return nil
	}
	all := p.conditionsOn(t)
	if len(all) == 0 {
		return nil
	}
	of := &call{policy: p, view: v, roles: roles, now: time.Now()}
	for _, c := range all {
		yes, err := c.holds(of, t)
		if err != nil && l.logged.now() {
			// The error may quote an argument.
			why := "the expression has no value for these arguments"
			if strings.Contains(err.Error(), "cost limit") {
				why = "the expression takes too long"
			}
			l.log.Warn("a condition of the policy cannot be asked, which denies the call", "line", c.line, "call", v.ID, "why", why)
		}
		if !yes || err != nil {
			return fault.New(fault.Forbidden, "the policy does not allow %s with these arguments", fault.Clip(t.String()))
		}
	}
	return nil
}

// subject says what a call is about.
type subject uint8

const (
	nothing subject = iota // a target of the policy
	aTarget
	theEdge // and decides elsewhere
)

// about is what a call is about.
func about(v *gateway.View) (Target, subject) {
	switch v.Method {
	case mcp.MethodToolsCall:
		return NewTarget(Tools, v.Name), aTarget
	case mcp.MethodPromptsGet:
		return NewTarget(Prompts, v.Name), aTarget
	case mcp.MethodResourcesRead:
		return NewTarget(Resources, v.Name), aTarget
	case mcp.MethodSample:
		return NewTarget(Sampling, createMessage), aTarget
	case mcp.MethodComplete:
		var p mcp.CompleteParams
		if json.Unmarshal(v.Arguments, &p) != nil {
			return Target{}, nothing
		}
		if p.Ref.Type == "ref/prompt" {
			return NewTarget(Prompts, p.Ref.Name), aTarget
		}
		return NewTarget(Resources, p.Ref.URI), aTarget
	case mcp.MethodResourcesList, mcp.MethodPromptsList:
		return Target{}, theEdge // which filters the list by what its caller may read
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return Target{}, theEdge // a task belongs to its principal, and was allowed when it began
	case gateway.AuditQuery:
		return Target{}, theEdge // the door of the trail asks ReadsTrail
	}
	return Target{}, nothing
}

// View implements gateway.Access.
func (l *Live) View(who gateway.Principal) catalogue.View { return l.Now().View(who) }

// Approval implements gateway.Access.
func (l *Live) Approval(who gateway.Principal, tool string, says bool) gateway.Demand {
	return l.Now().Approval(who, tool, says)
}

// MayApprove implements gateway.Access.
func (l *Live) MayApprove(who gateway.Principal, requester, tool string) bool {
	return l.Now().MayApprove(who, requester, tool)
}

// Roles implements gateway.Access.
func (l *Live) Roles(who gateway.Principal) []string { return l.Now().Roles(who) }

// Approves implements gateway.Access.
func (l *Live) Approves(who gateway.Principal) bool { return l.Now().Approves(who) }

// ReadsTrail implements gateway.Access.
func (l *Live) ReadsTrail(who gateway.Principal) bool { return l.Now().ReadsTrail(who) }
