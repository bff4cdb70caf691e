package gateway

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// NewStream names a stream for Call.Stream.
func (g *Gateway) NewStream() *edges.Stream { return g.caller.NewStream() }

// Edge is this edge's name on the bus.
func (g *Gateway) Edge() string { return g.caller.Edge() }

// Present reports whether an edge is on the bus.
func (g *Gateway) Present(ctx context.Context, edge string) bool { return g.caller.Present(ctx, edge) }

// Keep adds to a stream what the edge sends to the client on its own.
func (g *Gateway) Keep(ctx context.Context, s *edges.Stream, sent *busv1.Sent) error {
	return g.caller.Keep(ctx, s, sent)
}

// CancelStream stops the call that a stream is of.
func (g *Gateway) CancelStream(s *edges.Stream) { g.caller.CancelOn(s, "cancelled") }

// Follow carries on with the stream of a call that an edge made before, after a
// position; see bus.Caller.Follow. The call passed the chain then; how it ends
// is recorded, as the end of that call, by every edge that tells a client.
func (g *Gateway) Follow(ctx context.Context, c *Call, after edges.Position, onFrame OnFrame, served func() bool) (*Answer, error) {
	c.Received, c.ID = time.Now(), bus.NewID()
	var err error
	if c.Principal, err = g.Authenticate(ctx, c.Credentials); err != nil {
		return nil, err
	}
	c.payer = Payer(c.Principal, c.Credentials)
	if c.Target, err = find(g.catalogue.Now(), c); err != nil && c.Method == mcp.MethodToolsCall {
		c.Target.Tool = &catalogue.Tool{} // it is gone, and may have had an effect
	}
	frame, err := g.caller.Follow(ctx, c.Stream, after, onFrame, served)
	if call := c.Stream.Call(); call != "" {
		c.ID = call
	}
	if err != nil {
		return nil, record(ctx, g.auditor, c, nil, err)
	}
	answer := answerOf(frame)
	if asked := answer.InputRequired; asked != nil && !c.Stream.AskedByEdge() && c.Target.Tool != nil && c.Target.Tool.RequiresUserApproval {
		// Its service asks only in a call that a person has agreed to.
		asked.RequestState = approvalState(agreed, c, asked.RequestState)
	}
	if err := record(ctx, g.auditor, c, answer, nil); err != nil {
		return nil, err
	}
	if answer.InputRequired != nil && len(answer.InputRequired.RequestState) > 0 {
		answer.InputRequired.RequestState, err = g.sealer.sealState(ctx, c, answer.InputRequired.RequestState)
	}
	return answer, err
}

// Adopt makes Do work on a stream that another edge made, until it is released.
func (g *Gateway) Adopt(s *edges.Stream) (release func(), err error) { return g.caller.Adopt(s) }
