package era

import (
	"context"
	"errors"
	"math"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Resume finds the answer that a legacy client comes back for, with the id of
// the last event it got (2025-11-25, basic/transports, Resumability and
// Redelivery). r needs no message. rest sends what follows to r.Resumable; ctx
// is the client's connection. The error has reason HistoryLost when there is
// nothing to send any more.
func (s *Server) Resume(ctx context.Context, r *Request, lastEventID string) (rest func(), err error) {
	name, at, ok := parseEventID(lastEventID)
	if !ok {
		return nil, fault.New(fault.InvalidRequest, "Last-Event-ID is not one that this server gave").Ran(fault.Unknown)
	}
	n, err := s.streams.Get(ctx, name, r.Session.ID)
	if err != nil {
		return nil, err
	}
	m, err := mcp.Parse(n.Request, mcp.DefaultLimits())
	if err != nil {
		return nil, err
	}
	r.Message = &m
	client, level := legacyClient(r)
	c, err := newCall(r, client, level)
	if err != nil {
		return nil, err
	}
	return func() { s.carryOn(ctx, r, c, n, at) }, nil
}

// carryOn follows an answer and, when nobody serves it any more, serves it.
func (s *Server) carryOn(connection context.Context, r *Request, c *gateway.Call, n *session.Stream, at edges.Position) {
	ctx, p := r.Peer.begin(context.WithoutCancel(connection), r.Message.ID, r.Resumable)
	x := Exchange(r.Resumable)
	if p != nil { // else its first exchange is still at this edge, and has the id
		defer p.end()
		x = p
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	a := &answerStream{server: s, r: r, leave: leave, begun: true}
	if r.Version >= mcp.V20251125 {
		// Clients know an id only from the connection they have: without one they
		// do not come back once more.
		r.Resumable.Begin(eventID(&edges.Stream{Name: n.Name}, at))
		go a.leaveAtClose(ctx)
	}
	notify := notifier{token: r.Message.P.ProgressToken, x: patient{x}, last: math.Inf(-1)}
	onFrame := func(f *busv1.Frame) {
		at = a.stream.Last()
		a.mark()
		if sent := f.GetSent(); sent != nil {
			x.Ask(sent.Json)
			return
		}
		notify.forward(f)
	}
	server := n.Edge
	served := func() bool {
		if now, err := s.streams.Get(ctx, n.Name, n.Session); err == nil {
			server = now.Edge
		}
		return server != "" && s.gateway.Present(ctx, server)
	}
	for {
		a.stream = &edges.Stream{Name: n.Name, Home: n.Home, KeepAll: true}
		c.Stream = a.stream
		answer, err := s.follow(connection, ctx, c, at, onFrame, served)
		switch {
		case errors.Is(context.Cause(ctx), ErrCancelled):
			s.gateway.CancelStream(a.stream)
			if err := s.gateway.CancelElsewhere(n.Session, r.Message.ID); err != nil {
				s.log.Warn("a cancellation was not passed on", "error", err)
			}
			return
		case err != nil && connection.Err() != nil:
			return // the client may come back once more
		case err == nil && answer.InputRequired != nil:
			taken, err := s.streams.Take(ctx, n.Name, server, s.gateway.Edge())
			if err == nil && !taken {
				continue
			}
			notify.x = x // who makes a call may not wait
			answer, err = s.takeOver(ctx, r, x, c, a, n, answer, onFrame)
			s.finish(ctx, r, x, a, answer, err)
			return
		}
		if err == nil {
			answer = s.legacyAnswer(c, answer)
		} else {
			a.begun = false // only who serves an answer adds to it
		}
		s.finish(ctx, r, x, a, answer, err)
		return
	}
}

// patient is an Exchange whose notifications wait for a slow client and are not
// dropped: the stream keeps those that follow.
type patient struct{ Exchange }

// Notify implements Exchange.
func (p patient) Notify(message []byte) { p.Ask(message) }

// follow follows while the client is there and has not cancelled.
func (s *Server) follow(connection, ctx context.Context, c *gateway.Call, at edges.Position, onFrame gateway.OnFrame, served func() bool) (*gateway.Answer, error) {
	both, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(connection, stop)()
	return s.gateway.Follow(both, c, at, onFrame, served)
}

// takeOver asks the client what the edge before would have asked, and goes on
// from there.
func (s *Server) takeOver(ctx context.Context, r *Request, x Exchange, c *gateway.Call, a *answerStream, n *session.Stream, answer *gateway.Answer, onFrame gateway.OnFrame) (*gateway.Answer, error) {
	if n.Cut {
		return nil, fault.New(fault.PeerLost, "the edge that served this call is gone, and its arguments were too large to keep; send it again")
	}
	release, err := s.gateway.Adopt(a.stream)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.rounds(ctx, r, x, c, a, answer, onFrame)
}
