package graphql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// held is a call that waits for a person, as an Approval or an Elicitation.
type held struct {
	Approval, Elicitation, Principal, Name string
	Title, Shown                           *string
	Parameters, Requests                   *JSON
	Expires                                string
}

func newHeld(h *api.Held) (*held, error) {
	out := &held{
		Approval: h.Approval, Elicitation: h.Elicitation, Principal: h.Principal, Name: h.Name, Title: text(h.Title), Shown: text(h.Shown),
		Parameters: value(h.Parameters), Expires: h.Expires.Format(time.RFC3339),
	}
	if h.Requests == nil {
		return out, nil
	}
	requests, err := json.Marshal(h.Requests, json.Deterministic(true))
	out.Requests = value(requests)
	return out, err
}

// id is an argument.
type id struct{ ID string }

// GetApprovals resolves getApprovals.
func (q *query) GetApprovals(ctx context.Context) ([]*held, error) {
	return q.held(ctx, gateway.ForApproval)
}

// GetElicitations resolves getElicitations.
func (q *query) GetElicitations(ctx context.Context) ([]*held, error) {
	return q.held(ctx, gateway.ForAnswers)
}

func (q *query) held(ctx context.Context, ask *gateway.Ask) ([]*held, error) {
	all, err := q.api.Held(ctx, ask, callerOf(ctx))
	out := make([]*held, len(all))
	for i := range all {
		if out[i], err = newHeld(&all[i]); err != nil {
			break
		}
	}
	return out, fail(err)
}

// GetApproval resolves getApproval.
func (q *query) GetApproval(ctx context.Context, in id) (*held, error) {
	return q.findHeld(ctx, gateway.ForApproval, in.ID)
}

// GetElicitation resolves getElicitation.
func (q *query) GetElicitation(ctx context.Context, in id) (*held, error) {
	return q.findHeld(ctx, gateway.ForAnswers, in.ID)
}

func (q *query) findHeld(ctx context.Context, ask *gateway.Ask, id string) (*held, error) {
	found, err := q.api.FindHeld(ctx, ask, callerOf(ctx), id)
	if err != nil {
		return nil, fail(err)
	}
	return newHeld(found)
}

// Approve resolves approve.
func (m *mutation) Approve(ctx context.Context, in struct {
	ID      string
	Approve bool
}) (*toolResult, error) {
	return decided(m.api.Approve(ctx, callerOf(ctx), in.ID, in.Approve))
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
	return decided(m.api.Answer(ctx, callerOf(ctx), in.ID, responses, nil))
}

func decided(result []byte, err error) (*toolResult, error) {
	if err != nil {
		return nil, fail(err)
	}
	return newToolResult(result)
}
