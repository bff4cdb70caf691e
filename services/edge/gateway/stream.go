package gateway

import (
	"context"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
)

// NewStream names a stream for Call.Stream.
func (g *Gateway) NewStream() *bus.Stream { return g.caller.NewStream() }

// Edge is this edge's name on the bus.
func (g *Gateway) Edge() string { return g.caller.Edge() }

// Present reports whether an edge is on the bus.
func (g *Gateway) Present(ctx context.Context, edge string) bool { return g.caller.Present(ctx, edge) }

// Keep adds to a stream what the edge sends to the client on its own.
func (g *Gateway) Keep(ctx context.Context, s *bus.Stream, sent *busv1.Sent) error {
	return g.caller.Keep(ctx, s, sent)
}

// CancelStream stops the call that a stream is of.
func (g *Gateway) CancelStream(s *bus.Stream) { g.caller.CancelOn(s, "cancelled") }

// Follow carries on with the stream of a call that an edge made before, after a
// position; see bus.Caller.Follow. The call passed the chain then; how it ends
// is recorded by every edge that tells a client.
func (g *Gateway) Follow(ctx context.Context, c *Call, after bus.Position, onFrame OnFrame, served func() bool) (*Answer, error) {
	c.Received = time.Now()
	var err error
	if c.Principal, err = g.Authenticate(ctx, c.Credentials); err != nil {
		return nil, err
	}
	frame, err := g.caller.Follow(ctx, c.Stream, after, onFrame, served)
	if err != nil {
		return nil, record(ctx, g.auditor, c, nil, err)
	}
	answer := answerOf(frame)
	_ = record(ctx, g.auditor, c, answer, nil)
	if answer.InputRequired != nil && len(answer.InputRequired.RequestState) > 0 {
		answer.InputRequired.RequestState, err = g.sealer.seal(ctx, c, answer.InputRequired.RequestState)
	}
	return answer, err
}

// Adopt makes Do work on a stream that another edge made, until it is released.
func (g *Gateway) Adopt(s *bus.Stream) (release func(), err error) { return g.caller.Adopt(s) }
