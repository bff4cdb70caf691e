package protocol

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Resumable is a Responder whose client can come back, at any edge, for the messages after an
// event (2025-11-25, basic/transports, Resumability and Redelivery).
//
// It works as follows. The messages of an answer are kept in a stream on the bus, from the first
// one that needs it (exchange.begin): most answers are over before. Each event id names the
// stream and a position in it. When the connection breaks, the call goes on. The client comes
// back with the last id that it got, at any edge, and Resume reads the rest of the stream and
// sends it. As long as another edge serves the answer, this edge only follows (carryOn). If no
// edge serves it any more and the tool has asked a question, one of the followers takes over:
// Streams.Take decides which one. That edge asks the client and makes the call again with its
// answers.
type Resumable interface {
	Responder
	// Begin sends an event with an id and no message, so that the client can come back before
	// there is a message.
	Begin(id string)
	// Mark gives an id to the message that is sent next.
	Mark(id string)
	// Leave closes the connection before the response is sent. The client comes back after retry.
	Leave(retry time.Duration)
}

// defaultRetry is how long a client waits after it was told to come back.
const defaultRetry = 500 * time.Millisecond

// Bounds of the answers that one account may come back for, through one edge, in half an hour.
// Beyond them, its calls are still answered, but it cannot come back for the answers.
const (
	maxKeptAnswers = 10_000
	//limit:party answers that clients may come back for | further answers cannot be fetched again
	maxKeptBytes = 64 << 20
	// keptReserve is counted for an answer until its size is known.
	keptReserve = 256 << 10
)

// maxKept bounds the request that is kept with an answer, in bytes.
const maxKept = 64 << 10

// keep prepares the exchange for a client that can come back. end counts what was kept.
func (e *exchange) keep(ctx context.Context) (_ context.Context, end func()) {
	s, r := e.server, e.r
	if r.Resumable == nil || r.Session == nil || r.Session.ID == "" {
		return ctx, func() {}
	}
	stream, account := s.caller.NewStream(), r.Session.Account
	if _, err := s.kept.Keep(account, stream.Name, keptReserve, edges.StreamTTL); err != nil {
		return ctx, func() {} // earlier answers of its account stay
	}
	ctx, e.leave = context.WithCancelCause(ctx)
	e.stream, e.call.Stream = stream, stream
	forward := e.onFrame
	e.onFrame = func(f *busv1.Frame) {
		e.begin(ctx)
		e.mark()
		forward(f)
	}
	return ctx, func() {
		e.leave(nil)
		if size := stream.Bytes(); size > 0 || e.begun {
			s.kept.Count(account, stream.Name, size, edges.StreamTTL)
		} else {
			s.kept.Release(account, stream.Name)
		}
	}
}

// begin makes the answer one that the client may come back for. Most answers are over before that
// is needed.
func (e *exchange) begin(ctx context.Context) {
	if e.stream == nil || e.begun || e.stream.KeepAll {
		return
	}
	e.stream.KeepAll = true
	n := &store.Stream{Name: e.stream.Name, Home: e.stream.Home, Session: e.r.Session.ID, Edge: e.server.caller.Edge()}
	n.Request, n.Cut = keptRequest(e.r.Message)
	store, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := e.server.streams.Put(store, n); err != nil {
		e.server.log.Warn("a client cannot come back for its answer", "error", err)
		return
	}
	e.begun = true
	at := e.stream.Last()
	at.Seq = max(at.Seq, 1) - 1
	e.stream.Leavable = e.announce(ctx, at)
}

// announce sends the client its position, so that the edge may leave it. It reports false for a
// client of an earlier version: only clients from 2025-11-25 on expect an event without a
// message, and expect the edge to leave.
func (e *exchange) announce(ctx context.Context, at edges.Position) bool {
	if e.r.Version < mcp.V20251125 {
		return false
	}
	e.r.Resumable.Begin(eventID(e.stream.Name, at))
	go func() {
		select {
		case <-e.server.closing:
			e.leave(bus.ErrLeft) // it comes back at another edge
		case <-ctx.Done():
		}
	}()
	return true
}

// mark gives the next message the present position in the stream.
func (e *exchange) mark() {
	if e.begun {
		e.r.Resumable.Mark(eventID(e.stream.Name, e.stream.Last()))
	}
}

// sent keeps a message that the edge itself is about to send.
func (e *exchange) sent(ctx context.Context, message []byte, response bool) {
	if !e.begun {
		return
	}
	if err := e.server.caller.Keep(ctx, e.stream, &busv1.Sent{Json: message, Response: response}); err != nil {
		e.server.log.Warn("a message to a client is not kept", "error", err)
	}
	e.mark()
}

// left hands the answer over to the edge that the client comes back to.
func (e *exchange) left(ctx context.Context, retry time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := e.server.streams.Take(ctx, e.stream.Name, e.server.caller.Edge(), ""); err != nil {
		e.server.log.Warn("a client's answer was not given up", "error", err)
	}
	e.r.Resumable.Leave(retry)
}

// Resume finds the answer that a legacy client comes back for, with the id of the last event that
// it got. r needs no message. rest sends the remaining messages to r.Resumable; ctx is the
// client's connection. The error has reason HistoryLost if nothing is left to send.
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
	e, err := s.newExchange(r, r.Resumable)
	if err != nil {
		return nil, err
	}
	return func() {
		defer r.over()
		// The error: its first responder is still at this edge, and has the id.
		own, _ := r.begin(context.WithoutCancel(ctx))
		rep, err := e.carryOn(ctx, own, n, at)
		s.respond(own, r, r.Resumable, rep, err)
	}, nil
}

// carryOn follows an answer and, when no edge serves it any more, serves it.
func (e *exchange) carryOn(connection, ctx context.Context, n *store.Stream, at edges.Position) (reply, error) {
	s := e.server
	ctx, e.leave = context.WithCancelCause(ctx)
	defer e.leave(nil)
	e.follow(n)
	e.begun = true
	// Clients know an id only from the connection they have: without one, they cannot come back
	// once more.
	e.announce(ctx, at)
	// The remaining messages are kept, so notifications may wait for a slow client.
	frames := newNotifier(e.r, blocking{e.out})
	e.onFrame = func(f *busv1.Frame) {
		at = e.stream.Last()
		e.mark()
		if sent := f.GetSent(); sent != nil {
			e.out.Send(sent.Json)
			return
		}
		frames.forward(f)
	}
	server := n.Edge
	served := func() bool {
		if now, err := s.streams.Get(ctx, n.Name, n.Session); err == nil {
			server = now.Edge
		}
		return server != "" && s.caller.Present(ctx, server)
	}
	// Until the client has cancelled or is gone.
	both, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(connection, stop)()
	for {
		answer, err := s.gateway.Follow(both, &e.call, at, e.onFrame, served)
		switch {
		case errors.Is(context.Cause(ctx), ErrCancelled):
			s.caller.CancelOn(e.stream, "cancelled")
			if err := s.caller.CancelElsewhere(n.Session, e.r.Message.ID); err != nil {
				s.log.Warn("a cancellation was not passed on", "error", err)
			}
			return reply{}, nil
		case err != nil && connection.Err() != nil:
			return reply{}, nil // the client may come back once more
		case err != nil:
			e.begun = false // only the edge that serves an answer adds to it
			return e.end(ctx, nil, err)
		case answer.InputRequired == nil:
			objectsOnly(answer)
			return e.end(ctx, answer, nil)
		}
		taken, err := s.streams.Take(ctx, n.Name, server, s.caller.Edge())
		if err == nil && !taken {
			e.follow(n)
			continue
		}
		frames.out = e.out // an edge that makes a call must not wait
		answer, err = e.takeOver(ctx, n, answer)
		return e.end(ctx, answer, err)
	}
}

// follow makes the exchange follow a stream, from its beginning.
func (e *exchange) follow(n *store.Stream) {
	e.stream = &edges.Stream{Name: n.Name, Home: n.Home, KeepAll: true}
	e.call.Stream = e.stream
}

// takeOver asks the client the questions of the edge before, and goes on from there.
func (e *exchange) takeOver(ctx context.Context, n *store.Stream, answer *gateway.Answer) (*gateway.Answer, error) {
	if n.Cut {
		return nil, fault.New(fault.PeerLost, "the edge that served this call is gone, and its arguments were too large to keep; send it again")
	}
	release, err := e.server.caller.Adopt(e.stream)
	if err != nil {
		return nil, err
	}
	defer release()
	return e.rounds(ctx, answer)
}

// blocking is a Sender whose notifications wait for a slow client.
type blocking struct{ Sender }

// Notify implements Sender.
func (b blocking) Notify(message []byte) { b.Send(message) }

// keptRequest is the request in the form in which it is kept, without its arguments if they are
// large.
func keptRequest(m *mcp.Message) (request jsontext.Value, cut bool) {
	params := []byte(m.Params)
	if cut = len(params) > maxKept; cut {
		params = []byte{'{'}
		if m.P.ProgressToken != nil {
			params = append(append(append(params, `"_meta":{"progressToken":`...), m.P.ProgressToken...), `},`...)
		}
		params = appendQuoted(append(params, `"uri":`...), m.P.URI)
		params = append(appendQuoted(append(params, `,"name":`...), m.P.Name), '}')
	}
	b := append(openResponse(nil, m.ID), `,"method":`...)
	b = appendQuoted(b, m.Method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}'), cut
}

// eventID names a position in a stream: <name>-<round>-<frame>.
func eventID(name string, at edges.Position) string {
	b := append(make([]byte, 0, len(name)+16), name...)
	b = strconv.AppendUint(append(b, '-'), uint64(at.Round), 10)
	return string(strconv.AppendUint(append(b, '-'), uint64(at.Seq), 10))
}

func parseEventID(id string) (name string, at edges.Position, ok bool) {
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return "", at, false
	}
	round, err1 := strconv.ParseUint(parts[1], 10, 32)
	seq, err2 := strconv.ParseUint(parts[2], 10, 32)
	return parts[0], edges.Position{Round: uint32(round), Seq: uint32(seq)}, err1 == nil && err2 == nil
}
