package era

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Resumable is an Exchange whose client can come back, at any edge, for what
// follows an event.
type Resumable interface {
	Exchange
	// Begin sends an event with an id and no message, so that the client can come
	// back before there is one.
	Begin(id string)
	// Mark gives an id to the message that is sent next.
	Mark(id string)
	// Leave closes the connection ahead of the response. The client comes back
	// after retry.
	Leave(retry time.Duration)
}

// defaultRetry is how long a client waits that is told to come back.
const defaultRetry = 500 * time.Millisecond

// The answers that one payer may come back for, through one edge, in half an
// hour. Beyond, its calls are answered, and it cannot come back for them.
const (
	maxKeptAnswers = 10_000
	maxKeptBytes   = 64 << 20
	// keptReserve is counted for an answer until it is known how large it is.
	keptReserve = 256 << 10
)

// maxKept bounds the request that is kept with an answer.
const maxKept = 64 << 10

// answerStream is the answer to a legacy client that may come back for it. nil
// is one that may not.
type answerStream struct {
	server *Server
	r      *Request
	stream *edges.Stream
	// begun says that the client has an event id, or will.
	begun bool
	leave context.CancelCauseFunc
}

// keep readies the answer to a request for a client that can come back.
func (s *Server) keep(ctx context.Context, r *Request) (context.Context, *answerStream) {
	if r.Resumable == nil || r.Session == nil || r.Session.ID == "" {
		return ctx, nil
	}
	stream := s.gateway.NewStream()
	if _, err := s.kept.Keep(r.Session.Payer, stream.Name, keptReserve, edges.StreamTTL); err != nil {
		return ctx, nil // what else is kept for its payer stays
	}
	ctx, leave := context.WithCancelCause(ctx)
	return ctx, &answerStream{server: s, r: r, stream: stream, leave: leave}
}

func (a *answerStream) end() {
	if a == nil {
		return
	}
	a.leave(nil)
	if size := a.stream.Bytes(); size > 0 || a.begun {
		a.server.kept.Count(a.r.Session.Payer, a.stream.Name, size, edges.StreamTTL)
	} else {
		a.server.kept.Release(a.r.Session.Payer, a.stream.Name)
	}
}

// begin makes the answer one that the client may come back for. Most are over
// before that is needed.
func (a *answerStream) begin(ctx context.Context) {
	if a == nil || a.begun || a.stream.KeepAll {
		return
	}
	a.stream.KeepAll = true
	n := &session.Stream{Name: a.stream.Name, Home: a.stream.Home, Session: a.r.Session.ID, Edge: a.server.gateway.Edge()}
	n.Request, n.Cut = keptRequest(a.r.Message)
	store, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.server.streams.Put(store, n); err != nil {
		a.server.log.Warn("a client cannot come back for its answer", "error", err)
		return
	}
	a.begun = true
	// An event without a message is what only clients from 2025-11-25 on expect,
	// and only they expect to be left.
	if a.r.Version < mcp.V20251125 {
		return
	}
	at := a.stream.Last()
	at.Seq = max(at.Seq, 1) - 1
	a.r.Resumable.Begin(eventID(a.stream, at))
	a.stream.Leavable = true
	go a.leaveAtClose(ctx)
}

// leaveAtClose has the client come back at another edge when this one closes.
func (a *answerStream) leaveAtClose(ctx context.Context) {
	select {
	case <-a.server.closing:
		a.leave(bus.ErrLeft)
	case <-ctx.Done():
	}
}

// took follows the frames of the answer as they come.
func (a *answerStream) took(ctx context.Context) {
	a.begin(ctx)
	a.mark()
}

func (a *answerStream) mark() {
	if a != nil && a.begun {
		a.r.Resumable.Mark(eventID(a.stream, a.stream.Last()))
	}
}

// sent keeps a message that the edge is about to send on its own.
func (a *answerStream) sent(ctx context.Context, message []byte, response bool) {
	if a == nil || !a.begun {
		return
	}
	if err := a.server.gateway.Keep(ctx, a.stream, &busv1.Sent{Json: message, Response: response}); err != nil {
		a.server.log.Warn("a message to a client is not kept", "error", err)
	}
	a.mark()
}

// left gives the answer up to the edge that the client comes back to.
func (a *answerStream) left(ctx context.Context, retry time.Duration) {
	if retry <= 0 {
		retry = defaultRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := a.server.streams.Take(ctx, a.stream.Name, a.server.gateway.Edge(), ""); err != nil {
		a.server.log.Warn("a client's answer was not given up", "error", err)
	}
	a.r.Resumable.Leave(retry)
}

// keptRequest is the request as it is kept, without its arguments when they
// are large.
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

// eventID names a place in a stream: <name>-<round>-<frame>.
func eventID(s *edges.Stream, at edges.Position) string {
	b := append(make([]byte, 0, len(s.Name)+16), s.Name...)
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
