package graphql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/api"
)

// approval is a call that waits for a person.
type approval struct {
	Approval, Principal, Name string
	Title, Shown              *string
	Parameters                *JSON
	Expires                   string
}

func newApproval(h *api.Held) *approval {
	return &approval{
		Approval: h.Approval, Principal: h.Principal, Name: h.Name, Title: text(h.Title), Shown: text(h.Shown),
		Parameters: value(h.Parameters), Expires: h.Expires.Format(time.RFC3339),
	}
}

// elicitation is a call whose tool asks.
type elicitation struct {
	Elicitation, Name string
	Title             *string
	Requests          *JSON
	Expires           string
}

func newElicitation(e *api.Elicitation) (*elicitation, error) {
	out := &elicitation{Elicitation: e.Elicitation, Name: e.Name, Title: text(e.Title), Expires: e.Expires.Format(time.RFC3339)}
	if e.Requests == nil {
		return out, nil
	}
	requests, err := json.Marshal(e.Requests, json.Deterministic(true))
	out.Requests = value(requests)
	return out, err
}

// id is an argument.
type id struct{ ID string }

// GetApprovals resolves getApprovals.
func (q *query) GetApprovals(ctx context.Context) ([]*approval, error) {
	all, err := q.api.Held(ctx, callerOf(ctx))
	if err != nil {
		return nil, fail(err)
	}
	out := make([]*approval, len(all))
	for i := range all {
		out[i] = newApproval(&all[i])
	}
	return out, nil
}

// GetApproval resolves getApproval.
func (q *query) GetApproval(ctx context.Context, in id) (*approval, error) {
	held, err := q.api.FindHeld(ctx, callerOf(ctx), in.ID)
	if err != nil {
		return nil, fail(err)
	}
	return newApproval(held), nil
}

// GetElicitations resolves getElicitations.
func (q *query) GetElicitations(ctx context.Context) ([]*elicitation, error) {
	all, err := q.api.Elicitations(ctx, callerOf(ctx))
	if err != nil {
		return nil, fail(err)
	}
	out := make([]*elicitation, len(all))
	for i := range all {
		if out[i], err = newElicitation(&all[i]); err != nil {
			return nil, fail(err)
		}
	}
	return out, nil
}

// GetElicitation resolves getElicitation.
func (q *query) GetElicitation(ctx context.Context, in id) (*elicitation, error) {
	e, err := q.api.FindElicitation(ctx, callerOf(ctx), in.ID)
	if err != nil {
		return nil, fail(err)
	}
	return newElicitation(e)
}

// Approve resolves approve.
func (m *mutation) Approve(ctx context.Context, in struct {
	ID      string
	Approve bool
}) (*toolResult, error) {
	result, err := m.api.Approve(ctx, callerOf(ctx), in.ID, in.Approve)
	if err != nil {
		return nil, fail(err)
	}
	return newToolResult(result)
}

// AnswerElicitation resolves answerElicitation.
func (m *mutation) AnswerElicitation(ctx context.Context, in struct {
	ID        string
	Responses JSON
}) (*toolResult, error) {
	responses, err := in.Responses.object("responses")
	if err != nil {
		return nil, fail(err)
	}
	result, err := m.api.Answer(ctx, callerOf(ctx), in.ID, responses, nil)
	if err != nil {
		return nil, fail(err)
	}
	return newToolResult(result)
}
