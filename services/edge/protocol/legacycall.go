package protocol

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

const (
	// askTime is how long a person or a model has to answer.
	askTime = 5 * time.Minute
	// maxRounds bounds how often one call may ask.
	maxRounds = 16
)

// exchange is a legacy client's call, from the request to the response.
//
// A service asks for input by ending the call with what it needs, as modern
// clients expect it. For a legacy client the edge makes the requests of the
// server that its version knows, and calls again with the answers: a round.
// All rounds' messages are kept for a client that can come back; see resume.go.
type exchange struct {
	server *Server
	r      *Request
	// out takes what goes ahead of the response.
	out Sender
	// call is as the client made it.
	call    gateway.Call
	onFrame gateway.OnFrame

	// stream keeps what is sent, for a client that may come back for it; nil for
	// another.
	stream *edges.Stream
	// begun says that the client has an event id, or will.
	begun bool
	leave context.CancelCauseFunc
}

func (s *Server) newExchange(r *Request, out Sender) (*exchange, error) {
	client, level := legacyClient(r)
	call, err := newCall(r, client, level)
	return &exchange{server: s, r: r, out: out, call: call, onFrame: newNotifier(r, out).forward}, err
}

// legacyCall is call for a legacy client.
func (s *Server) legacyCall(ctx context.Context, r *Request, out Sender) (reply, error) {
	e, err := s.newExchange(r, out)
	if err != nil {
		return reply{}, err
	}
	ctx, end := e.keep(s.track(ctx, r))
	defer end()
	answer, err := e.round(ctx, &e.call)
	if err == nil {
		answer, err = e.rounds(ctx, answer)
	}
	return e.end(ctx, answer, err)
}

// round makes the call once.
func (e *exchange) round(ctx context.Context, c *gateway.Call) (*gateway.Answer, error) {
	answer, err := e.server.gateway.Do(ctx, c, e.onFrame)
	if err == nil {
		objectsOnly(answer)
	}
	return answer, err
}

// rounds makes the call again for as long as its answer asks for input.
func (e *exchange) rounds(ctx context.Context, answer *gateway.Answer) (*gateway.Answer, error) {
	for range maxRounds {
		if answer.InputRequired == nil {
			return answer, nil
		}
		next := e.call
		next.RequestState = answer.InputRequired.RequestState
		var err error
		if next.InputResponses, err = e.ask(ctx, answer.InputRequired.InputRequests); err != nil {
			return nil, err
		}
		if answer, err = e.round(ctx, &next); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.Internal, "the tool asked for input more than %d times", maxRounds)
}

// ask sends the client every request at once and returns its answers by key.
func (e *exchange) ask(ctx context.Context, inputRequests []byte) ([]byte, error) {
	var requests map[string]struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params,omitzero"`
	}
	if err := json.Unmarshal(inputRequests, &requests); err != nil {
		return nil, fault.New(fault.Internal, "the service asked for input in a form that is not MCP's").Because(err)
	}
	e.begin(ctx) // before ctx is bounded by askTime
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	keys := slices.Sorted(maps.Keys(requests))
	open := make([]*edges.ClientRequest, 0, len(keys))
	defer func() {
		for _, asked := range open {
			asked.Close()
		}
	}()
	for _, key := range keys {
		asked := e.server.caller.Ask()
		open = append(open, asked)
		message := request(asked.ID, requests[key].Method, requests[key].Params)
		e.sent(ctx, message, false)
		// A client that is gone may come back for it.
		if !e.out.Send(message) && !e.begun {
			return nil, fault.New(fault.MissingCapability, "the tool asks for input, and this client cannot be asked: it takes no text/event-stream")
		}
	}
	answers := make(map[string]jsontext.Value, len(keys))
	for i, key := range keys {
		answer, err := open[i].Wait(ctx, e.r.peer())
		if err != nil {
			e.withdraw(ctx, open[i:])
			return nil, err
		}
		if len(answer.Error) > 0 {
			e.withdraw(ctx, open[i+1:])
			return nil, refusedInput(requests[key].Method, answer.Error)
		}
		answers[key] = answer.Result
	}
	return json.Marshal(answers, json.Deterministic(true))
}

// withdraw tells the client that nobody waits for its answers any more.
func (e *exchange) withdraw(ctx context.Context, requests []*edges.ClientRequest) {
	for _, q := range requests {
		message := notification(mcp.NotifyCancelled, append(appendQuoted([]byte(`{"requestId":`), q.ID), '}'))
		e.sent(context.WithoutCancel(ctx), message, false)
		e.out.Notify(message)
	}
}

func refusedInput(method string, raw []byte) error {
	var e struct {
		Message string `json:"message,omitzero"`
	}
	_ = json.Unmarshal(raw, &e) // without a message it says less
	return fault.New(fault.Cancelled, "the client refused %s: %.200q", method, e.Message)
}

// peer is where what a client is asked is answered from: its session, or the
// connection that is one. Empty where there is neither.
func (r *Request) peer() string {
	switch {
	case r.connection != nil:
		return r.connection.name
	case r.Session != nil:
		return r.Session.ID
	}
	return ""
}

// answered takes a client's response to where it is waited for, at this edge
// or another.
func (s *Server) answered(r *Request) {
	m := r.Message
	id, err := jsontext.AppendUnquote(nil, m.ID)
	if err != nil {
		return // not an id that an edge gives
	}
	answer := &edgev1.ClientAnswer{Result: m.Result, Error: m.Error, Session: r.peer()}
	if answer.Session == "" {
		return // nobody was asked
	}
	if err := s.caller.Answer(string(id), answer); err != nil {
		s.log.Warn("a client's answer was not delivered", "error", err)
	}
}

// objectsOnly takes structured content away that is not an object, which
// clients before 2026-07-28 do not take. The text content says the same.
func objectsOnly(a *gateway.Answer) {
	if a.Tool == nil || !a.Tool.LooseOutput || a.Result == nil {
		return
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(a.Result.Json, &members) != nil || members["structuredContent"].Kind() == '{' {
		return
	}
	delete(members, "structuredContent")
	if out, err := json.Marshal(members, json.Deterministic(true)); err == nil {
		a.Result.Json = out
	}
}

// end is what the exchange comes to.
func (e *exchange) end(ctx context.Context, answer *gateway.Answer, err error) (reply, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrCancelled):
		return reply{}, err
	case err != nil && errors.Is(cause, bus.ErrLeft):
		e.left(ctx, defaultRetry)
		return reply{}, nil
	case err == nil && answer.Disconnect != nil:
		e.left(ctx, cmp.Or(time.Duration(answer.Disconnect.RetryMs)*time.Millisecond, defaultRetry))
		return reply{}, nil
	}
	rep, err := e.r.reply(answer, err)
	if err == nil {
		e.mark()
		return rep, nil
	}
	_, message := e.server.response(e.r, rep, err)
	e.sent(context.WithoutCancel(ctx), message, true)
	return rep, err // the error says how to show better credentials, too
}
