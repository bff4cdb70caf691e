package api

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Elicitation is a call whose tool asks its caller something, and waits for the answer.
type Elicitation struct {
	// Elicitation is the id with which to answer it.
	Elicitation string `json:"elicitation"`
	// Name of the tool.
	Name string `json:"name"`
	// Title of the tool; empty for none.
	Title string `json:"title,omitzero"`
	// Requests are the questions, by the keys that the responses have; absent in lists.
	Requests map[string]gateway.Question `json:"requests,omitzero"`
	// Expires is when it is too late to answer, in whole seconds.
	Expires time.Time `json:"expires"`
}

func newElicitation(h *store.HeldCall) Elicitation {
	return Elicitation{Elicitation: h.ID, Name: h.Name, Title: h.Title, Expires: h.Expires.Truncate(time.Second)}
}

// Elicitations returns the open questions of the caller's calls; see
// gateway.Elicitations.
func (s *Server) Elicitations(ctx context.Context, c Caller) ([]Elicitation, error) {
	all, err := s.gateway.Elicitations(ctx, c.Door, c.Credentials)
	out := make([]Elicitation, len(all))
	for i, h := range all {
		out[i] = newElicitation(h)
	}
	return out, err
}

// FindElicitation returns the questions of one of the caller's calls.
func (s *Server) FindElicitation(ctx context.Context, c Caller, id string) (*Elicitation, error) {
	held, err := s.gateway.FindElicitation(ctx, c.Door, c.Credentials, id)
	if err != nil {
		return nil, err
	}
	e := newElicitation(held)
	e.Requests, err = gateway.Questions(held)
	return &e, err
}

// Answer continues a call that asked. responses is a JSON object, by key.
func (s *Server) Answer(ctx context.Context, c Caller, id string, responses jsontext.Value, onFrame gateway.OnFrame) (jsontext.Value, error) {
	answer, err := s.gateway.Answer(ctx, c.Door, c.Credentials, id, responses, onFrame)
	return Outcome(answer, err)
}
