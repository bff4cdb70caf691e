package api

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Held is a call that waits for its caller's approval.
type Held struct {
	// Approval is the id with which to approve it.
	Approval string `json:"approval"`
	// Principal made the call.
	Principal string `json:"principal"`
	// Name of the tool.
	Name string `json:"name"`
	// Title of the tool; empty for none.
	Title string `json:"title,omitzero"`
	// Shown are the parameters in the form for people: in full, or as names, sizes and
	// digests of those that are too large; absent in lists.
	Shown string `json:"shown,omitzero"`
	// Parameters is a JSON object; absent in lists.
	Parameters jsontext.Value `json:"parameters,omitzero"`
	// Expires is when it is too late to approve, in whole seconds.
	Expires time.Time `json:"expires"`
}

func newHeld(h *store.HeldCall) Held {
	return Held{Approval: h.ID, Principal: gateway.NameOf(h.Principal), Name: h.Name, Title: h.Title, Parameters: h.Arguments, Expires: h.Expires.Truncate(time.Second)}
}

// Held returns the calls that wait for their caller's approval; see gateway.Held.
func (s *Server) Held(ctx context.Context, c Caller) ([]Held, error) {
	all, err := s.gateway.Held(ctx, c.Door, c.Credentials)
	out := make([]Held, len(all))
	for i, h := range all {
		out[i] = newHeld(h)
	}
	return out, err
}

// FindHeld returns a call that waits for its caller's approval, with its parameters.
func (s *Server) FindHeld(ctx context.Context, c Caller, id string) (*Held, error) {
	found, err := s.gateway.FindHeld(ctx, c.Door, c.Credentials, id)
	if err != nil {
		return nil, err
	}
	h := newHeld(found)
	h.Shown = gateway.ShowArguments(h.Parameters)
	if len(h.Parameters) == 0 {
		h.Parameters = jsontext.Value("{}")
	}
	return &h, nil
}

// Approve carries out a held call if yes is set, and otherwise discards it.
func (s *Server) Approve(ctx context.Context, c Caller, id string, yes bool) (jsontext.Value, error) {
	answer, err := s.gateway.Approve(ctx, c.Door, c.Credentials, id, yes, nil)
	return Outcome(answer, err)
}
