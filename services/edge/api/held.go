package api

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Held is a call that waits for an approval or, as an elicitation, for its caller's answers.
type Held struct {
	// Approval is the id with which to approve it, Elicitation the id with which to answer it;
	// one of them is empty.
	Approval    string `json:"approval,omitzero"`
	Elicitation string `json:"elicitation,omitzero"`
	// Principal made the call; empty for an elicitation.
	Principal string `json:"principal,omitzero"`
	// Name of the tool.
	Name string `json:"name"`
	// Title of the tool; empty for none.
	Title string `json:"title,omitzero"`
	// Shown are the parameters in the form for people: in full, or as names, sizes and
	// digests of those that are too large; absent in lists, as Parameters and Requests are.
	Shown string `json:"shown,omitzero"`
	// Parameters is a JSON object.
	Parameters jsontext.Value `json:"parameters,omitzero"`
	// Requests are the questions of an elicitation, by the keys that the responses have.
	Requests map[string]gateway.Question `json:"requests,omitzero"`
	// Expires is when it is too late to decide, in whole seconds.
	Expires time.Time `json:"expires"`
}

func newHeld(ask *gateway.Ask, h *store.HeldCall) Held {
	held := Held{Name: h.Name, Title: h.Title, Expires: h.Expires.Truncate(time.Second)}
	if ask == gateway.ForAnswers {
		held.Elicitation = h.ID
	} else {
		held.Approval, held.Principal = h.ID, gateway.NameOf(h.Principal)
	}
	return held
}

// Approvals returns the calls that wait for the caller's approval; see gateway.Held.
func (s *Server) Approvals(ctx context.Context, c Caller, _ None) (List[Held], error) {
	return s.held(ctx, gateway.ForApproval, "approvals", c)
}

// Elicitations returns the open questions of the caller's calls; see gateway.Held.
func (s *Server) Elicitations(ctx context.Context, c Caller, _ None) (List[Held], error) {
	return s.held(ctx, gateway.ForAnswers, "elicitations", c)
}

func (s *Server) held(ctx context.Context, ask *gateway.Ask, member string, c Caller) (List[Held], error) {
	all, err := s.gateway.Held(ctx, ask, c.Door, c.Credentials)
	out := List[Held]{Member: member, Entries: make([]Held, len(all))}
	for i, h := range all {
		out.Entries[i] = newHeld(ask, h)
	}
	return out, err
}

// FindApproval returns a call that waits for the caller's approval, with its parameters.
func (s *Server) FindApproval(ctx context.Context, c Caller, id string) (*Held, error) {
	found, err := s.gateway.FindHeld(ctx, gateway.ForApproval, c.Door, c.Credentials, id)
	if err != nil {
		return nil, err
	}
	h := newHeld(gateway.ForApproval, found)
	h.Shown, h.Parameters = gateway.ShowArguments(found.Arguments), found.Arguments
	if len(h.Parameters) == 0 {
		h.Parameters = jsontext.Value("{}")
	}
	return &h, nil
}

// FindElicitation returns the questions of one of the caller's calls.
func (s *Server) FindElicitation(ctx context.Context, c Caller, id string) (*Held, error) {
	found, err := s.gateway.FindHeld(ctx, gateway.ForAnswers, c.Door, c.Credentials, id)
	if err != nil {
		return nil, err
	}
	e := newHeld(gateway.ForAnswers, found)
	e.Requests, err = gateway.Questions(found)
	return &e, err
}

// Decision is the answer to a call that waits for an approval.
type Decision struct {
	Approval string `json:"approval"`
	Approve  *bool  `json:"approve"`
}

// Approve carries out a call that waits for an approval, or discards it.
func (s *Server) Approve(ctx context.Context, c Caller, d Decision) (*Result, error) {
	return toolResult(Outcome(s.gateway.Approve(ctx, c.Door, c.Credentials, d.Approval, *d.Approve, nil)))
}

// Answers are the responses to a call whose tool asks: a JSON object, by key.
type Answers struct {
	Elicitation string         `json:"elicitation"`
	Responses   jsontext.Value `json:"responses"`
}

// Answer continues a call that asked.
func (s *Server) Answer(ctx context.Context, c Caller, a Answers) (*Result, error) {
	return toolResult(Outcome(s.gateway.Answer(ctx, c.Door, c.Credentials, a.Elicitation, a.Responses, c.OnFrame)))
}
