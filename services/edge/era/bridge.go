package era

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// A service asks for input by ending the call with what it needs, as modern
// clients expect it. For a legacy client the edge makes the requests of the
// server that its version knows, and calls again with the answers.

const (
	// askTime is how long a person or a model has to answer.
	askTime = 5 * time.Minute
	// maxRounds bounds how often one call may ask.
	maxRounds = 16
)

// bridge carries a legacy client's call through as many rounds of input as the
// service asks for.
func (s *Server) bridge(ctx context.Context, r *Request, x Exchange, c *gateway.Call, kept *answerStream, onFrame gateway.OnFrame) (*gateway.Answer, error) {
	answer, err := s.gateway.Do(ctx, c, onFrame)
	if err != nil {
		return nil, err
	}
	return s.rounds(ctx, r, x, c, kept, answer, onFrame)
}

// rounds goes on from the answer to the first call.
func (s *Server) rounds(ctx context.Context, r *Request, x Exchange, c *gateway.Call, kept *answerStream, answer *gateway.Answer, onFrame gateway.OnFrame) (*gateway.Answer, error) {
	for range maxRounds {
		if answer.InputRequired == nil {
			return s.legacyAnswer(c, answer), nil
		}
		next := *c
		var err error
		if next.InputResponses, err = s.ask(ctx, r, x, kept, answer.InputRequired.InputRequests); err != nil {
			return nil, err
		}
		next.RequestState = answer.InputRequired.RequestState
		if answer, err = s.gateway.Do(ctx, &next, onFrame); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.Internal, "the tool asked for input more than %d times", maxRounds)
}

// legacyAnswer is an answer without what legacy clients do not take.
func (s *Server) legacyAnswer(c *gateway.Call, a *gateway.Answer) *gateway.Answer {
	if c.Method == mcp.MethodToolsCall && a.Result != nil {
		if t, ok := s.gateway.Catalogue().Now().Tool(c.Name); ok && t.Tool.LooseOutput {
			a.Result.Json = objectsOnly(a.Result.Json)
		}
	}
	return a
}

// objectsOnly takes structured content away that is not an object, which
// clients before 2026-07-28 do not take. The text content says the same.
func objectsOnly(result []byte) []byte {
	var members map[string]jsontext.Value
	if json.Unmarshal(result, &members) != nil || members["structuredContent"].Kind() == '{' {
		return result
	}
	delete(members, "structuredContent")
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return result
	}
	return out
}

// ask sends the client every request at once and returns its answers by key.
func (s *Server) ask(ctx context.Context, r *Request, x Exchange, kept *answerStream, inputRequests []byte) ([]byte, error) {
	var requests map[string]struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params,omitzero"`
	}
	if err := json.Unmarshal(inputRequests, &requests); err != nil {
		return nil, fault.New(fault.Internal, "the service asked for input in a form that is not MCP's").Because(err)
	}
	kept.begin(ctx) // for longer than this question
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	keys := slices.Sorted(maps.Keys(requests))
	open := make([]*bus.Question, 0, len(keys))
	defer func() {
		for _, q := range open {
			q.Close()
		}
	}()
	for _, key := range keys {
		q := s.gateway.Ask()
		open = append(open, q)
		message := serverRequest(q.ID, requests[key].Method, requests[key].Params)
		kept.sent(ctx, message, false)
		// A client that is gone may come back for it.
		if !x.Ask(message) && (kept == nil || !kept.begun) {
			return nil, fault.New(fault.MissingCapability, "the tool asks for input, and this client cannot be asked: it takes no text/event-stream")
		}
	}
	session := ""
	if r.Session != nil {
		session = r.Session.ID
	}
	answers := make(map[string]jsontext.Value, len(keys))
	for i, key := range keys {
		answer, err := open[i].Wait(ctx, session)
		if err != nil {
			s.withdraw(ctx, x, kept, open[i:])
			return nil, err
		}
		if len(answer.Error) > 0 {
			s.withdraw(ctx, x, kept, open[i+1:])
			return nil, refusedInput(requests[key].Method, answer.Error)
		}
		answers[key] = answer.Result
	}
	return json.Marshal(answers, json.Deterministic(true))
}

// withdraw tells the client that nobody waits for its answers any more.
func (s *Server) withdraw(ctx context.Context, x Exchange, kept *answerStream, questions []*bus.Question) {
	for _, q := range questions {
		message := withdrawal(q)
		kept.sent(context.WithoutCancel(ctx), message, false)
		x.Notify(message)
	}
}

func withdrawal(q *bus.Question) []byte {
	return notification(mcp.NotifyCancelled, append(appendQuoted([]byte(`{"requestId":`), q.ID), '}'))
}

func refusedInput(method string, raw []byte) error {
	var e struct {
		Message string `json:"message,omitzero"`
	}
	_ = json.Unmarshal(raw, &e) // without a message it says less
	return fault.New(fault.Cancelled, "the client refused %s: %.200q", method, e.Message)
}

func serverRequest(id, method string, params []byte) []byte {
	b := appendQuoted([]byte(`{"jsonrpc":"2.0","id":`), id)
	b = appendQuoted(append(b, `,"method":`...), method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), oneLine(params)...)
	}
	return append(b, '}')
}

// answered takes a client's response to where it is waited for, at this edge
// or another.
func (s *Server) answered(r *Request) {
	m := r.Message
	id, err := jsontext.AppendUnquote(nil, m.ID)
	if err != nil {
		return // not an id that an edge gives
	}
	answer := &busv1.ClientAnswer{Result: m.Result, Error: m.Error}
	if r.Session != nil {
		answer.Session = r.Session.ID
	}
	if err := s.gateway.Answer(string(id), answer); err != nil {
		s.log.Warn("a client's answer was not delivered", "error", err)
	}
}
