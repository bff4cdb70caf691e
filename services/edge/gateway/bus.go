package gateway

import (
	"context"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
)

// Ask makes room for the answer of a client that is asked for input.
func (g *Gateway) Ask() *edges.ClientRequest { return g.cfg.Caller.Ask() }

// Answer hands a client's answer to the edge that asked.
func (g *Gateway) Answer(id string, answer *edgev1.ClientAnswer) error {
	return g.cfg.Caller.Answer(id, answer)
}

// CancelElsewhere passes on that a client gave up a request of its session,
// which another edge may hold.
func (g *Gateway) CancelElsewhere(session string, requestID []byte) error {
	return g.cfg.Caller.CancelElsewhere(session, requestID)
}

// OnTask calls f at every change of a task until stop is called. It says
// nothing of the task: what the client may know of it, Do finds out.
func (g *Gateway) OnTask(id string, f func()) (stop func(), err error) {
	return g.cfg.Tasks.OnWrite(id, f)
}

// NewStream names a stream for Call.Stream.
func (g *Gateway) NewStream() *edges.Stream { return g.cfg.Caller.NewStream() }

// Edge is this edge's name on the bus.
func (g *Gateway) Edge() string { return g.cfg.Caller.Edge() }

// Present reports whether an edge is on the bus.
func (g *Gateway) Present(ctx context.Context, edge string) bool {
	return g.cfg.Caller.Present(ctx, edge)
}

// Keep adds to a stream what the edge sends to the client on its own.
func (g *Gateway) Keep(ctx context.Context, s *edges.Stream, sent *busv1.Sent) error {
	return g.cfg.Caller.Keep(ctx, s, sent)
}

// CancelStream stops the call that a stream is of.
func (g *Gateway) CancelStream(s *edges.Stream) { g.cfg.Caller.CancelOn(s, "cancelled") }

// Adopt makes Do work on a stream that another edge made, until it is released.
func (g *Gateway) Adopt(s *edges.Stream) (release func(), err error) { return g.cfg.Caller.Adopt(s) }
