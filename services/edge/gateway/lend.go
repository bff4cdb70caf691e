package gateway

import (
	"context"
	"errors"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// lending is how callers without a model get that of a client: one of their own
// principal's, and nobody else's. The anonymous principal is everybody, so that
// both edges, the client's and the caller's, have to be told that this is meant.
type lending struct {
	caller    *bus.Caller
	anonymous bool
}

// among reports whether the clients of a principal lend to its callers here.
func (l lending) among(principal string) bool { return l.anonymous || principal != Anonymous.ID() }

// borrow asks one of the principal's clients.
func (l lending) borrow(ctx context.Context, p Principal, req *busv1.Request) (*busv1.Frame, error) {
	if !l.among(p.ID()) {
		return nil, noModel("start the edges with --lend-client-models and connect")
	}
	frame, err := l.caller.Borrow(ctx, p.ID(), req)
	if errors.Is(err, bus.ErrNoInstance) {
		return nil, noModel("connect")
	}
	return frame, err
}

func noModel(first string) error {
	return fault.New(fault.Unavailable, "No model is configured. Run the model service with BUSBAR_MODEL_PROVIDER=openai or anthropic, "+
		"BUSBAR_MODEL_NAME and BUSBAR_MODEL_API_KEY set, or %s an MCP client that offers sampling; docs/prompts.md tells more", first)
}

// Lend has a client of a principal asked for what callers without a model want
// sampled. Nil where clients of this principal lend nothing. Drain the server
// when the client goes.
func (g *Gateway) Lend(principal string, h bus.Handler) (*bus.Server, error) {
	if l := (lending{g.cfg.Caller, g.cfg.LendClientModels}); l.among(principal) {
		return l.caller.Lend(principal, h)
	}
	return nil, nil
}
