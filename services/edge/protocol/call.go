package protocol

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// call carries a request to a service and its answer back.
func (s *Server) call(ctx context.Context, r *Request, out Sender) (reply, error) {
	c, err := newCall(r, s.client(r.Message), r.Message.P.LogLevel)
	if err != nil {
		return reply{}, err
	}
	n := newNotifier(r, out)
	answer, err := s.gateway.Do(s.track(ctx, r), &c, n.forward)
	return r.reply(answer, err)
}

// newCall is the call that a request asks for.
func newCall(r *Request, client *busv1.Client, level string) (gateway.Call, error) {
	m := r.Message
	c := gateway.Call{
		Door: r.Door, Method: m.Method, Name: m.P.Name, Arguments: m.P.Arguments,
		Credentials: r.Credentials, Client: client,
		WantsProgress: m.P.ProgressToken != nil, LogLevel: logLevel(level),
		InputResponses: m.P.InputResponses, RequestState: m.P.RequestState,
		IdempotencyKey: m.P.IdempotencyKey, Traceparent: m.P.Traceparent, Tracestate: m.P.Tracestate, Protocol: r.Version,
		Meta: m.P.OtherMeta,
	}
	if c.Traceparent == "" {
		c.Traceparent, c.Tracestate = r.Traceparent, r.Tracestate
	}
	switch m.Method {
	case mcp.MethodResourcesRead:
		c.Name, c.Arguments = m.P.URI, nil
		if c.Name == "" {
			return c, missing("uri")
		}
	case mcp.MethodComplete:
		c.Name, c.Arguments = "", m.Params
	default:
		if c.Name == "" {
			return c, missing("name")
		}
	}
	return c, nil
}

// reply is what a call comes to for its client.
func (r *Request) reply(a *gateway.Answer, err error) (reply, error) {
	switch {
	case errors.Is(err, gateway.ErrInvalidArguments) && r.Version >= mcp.V20251125:
		// From 2025-11-25 on the model is told, so that it can do better.
		return toolError(fault.From(err)), nil
	case err != nil:
		return reply{}, err
	case a.Sent != nil:
		return reply{written: a.Sent.Json}, nil
	case a.Result != nil:
		rep := reply{resultType: complete, body: a.Result.Json, meta: a.Result.Meta}
		if r.Message.Method == mcp.MethodResourcesRead {
			rep.hints = uncached
		}
		if a.Replayed && r.Modern() {
			rep.meta = append([]byte(`{"`+mcp.MetaReplayed+`":true`), '}')
			if own := inner(oneLine(a.Result.Meta)); len(own) > 0 {
				rep.meta = append(append(rep.meta[:len(rep.meta)-1], ','), append(own, '}')...)
			}
		}
		return rep, nil
	case a.InputRequired != nil && r.Modern():
		body := append([]byte(`{"inputRequests":{`), inner(a.InputRequired.InputRequests)...)
		body = append(body, '}')
		if len(a.InputRequired.RequestState) > 0 {
			body = appendQuoted(append(body, `,"requestState":`...), string(a.InputRequired.RequestState))
		}
		return reply{resultType: "input_required", body: append(body, '}')}, nil
	case a.Task != nil && r.Modern():
		return reply{resultType: "task", body: appendTask([]byte{'{'}, a.Task, false)}, nil
	}
	return reply{}, fault.New(fault.Internal, "the service gave an answer that this version of the protocol has no form for")
}

// toolError is the result that tells a model why its arguments were refused.
func toolError(f *fault.Error) reply {
	body := append(appendQuoted([]byte(`{"content":[{"type":"text","text":`), f.Message), `}],"isError":true}`...)
	meta := appendQuoted([]byte(`{"`+mcp.MetaFailure+`":{"reason":`), string(f.Reason))
	meta = append(appendQuoted(append(meta, `,"executed":`...), string(f.Executed)), `}}`...)
	return reply{resultType: complete, body: body, meta: meta}
}

// notifier makes notifications of the frames of one call.
type notifier struct {
	token []byte
	out   Sender
	// last is the progress sent last. MCP wants it to grow, which it does not
	// when a call is repeated after a lost peer.
	last float64
}

func newNotifier(r *Request, out Sender) *notifier {
	return &notifier{token: r.Message.P.ProgressToken, out: out, last: math.Inf(-1)}
}

// forward sends a progress or log frame.
func (n *notifier) forward(f *busv1.Frame) {
	if p := f.GetProgress(); p != nil && n.token != nil && p.Progress > n.last {
		n.last = p.Progress
		b := append([]byte(`{"progressToken":`), n.token...)
		b = appendNumber(append(b, `,"progress":`...), p.Progress)
		if p.Total != 0 {
			b = appendNumber(append(b, `,"total":`...), p.Total)
		}
		if p.Message != "" {
			b = appendQuoted(append(b, `,"message":`...), p.Message)
		}
		n.out.Notify(notification(mcp.NotifyProgress, append(b, '}')))
	}
	if l := f.GetLog(); l != nil && l.Level >= 1 && int(l.Level) <= len(mcp.LogLevels) {
		b := append([]byte(`{"level":"`), mcp.LogLevels[l.Level-1]...)
		b = append(b, '"')
		if l.Logger != "" {
			b = appendQuoted(append(b, `,"logger":`...), l.Logger)
		}
		b = append(b, `,"data":`...)
		if len(l.Data) == 0 {
			b = append(b, "null"...)
		}
		b = append(b, oneLine(l.Data)...)
		n.out.Notify(notification(mcp.NotifyMessage, append(b, '}')))
	}
}

// logLevel is unspecified for a level MCP does not know.
func logLevel(level string) busv1.LogLevel {
	return busv1.LogLevel(slices.Index(mcp.LogLevels, level) + 1)
}

// client is what a modern client says of itself.
func (s *Server) client(m *mcp.Message) *busv1.Client {
	return s.clients.get(m.P.ClientInfo, m.P.ClientCapabilities)
}

// clientCache remembers how clients describe themselves, byte for byte: the
// same client says the same with every request.
type clientCache struct {
	mu    sync.RWMutex
	known map[string]*busv1.Client
}

// Bounds of the cache: clients, and bytes of one client's description.
const (
	maxClients     = 1024
	maxClientBytes = 4 << 10
)

func (c *clientCache) get(info, capabilities []byte) *busv1.Client {
	// Both are JSON objects, so nothing of the one can be read as the other.
	var buf [512]byte
	key := append(append(buf[:0], info...), capabilities...)
	c.mu.RLock()
	client := c.known[string(key)]
	c.mu.RUnlock()
	if client != nil {
		return client
	}
	var about struct {
		Name    string `json:"name,omitzero"`
		Version string `json:"version,omitzero"`
	}
	// Self-reported and unverified: one that does not parse has no name.
	_ = json.Unmarshal(info, &about)
	client = &busv1.Client{Name: about.Name, Version: about.Version, Capabilities: append([]byte(nil), capabilities...)}
	if len(key) > maxClientBytes {
		return client
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxClients {
		c.known = map[string]*busv1.Client{}
	}
	c.known[string(key)] = client
	return client
}
