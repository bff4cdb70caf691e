package era

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// call carries a request to a service and its answer back.
func (s *Server) call(ctx context.Context, r *Request, x Exchange, client *busv1.Client, level string) {
	c, err := newCall(r, client, level)
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	ctx, release := s.hold(ctx)
	defer release()
	n := notifier{token: r.Message.P.ProgressToken, x: x, last: math.Inf(-1)}
	if r.Modern() {
		answer, err := s.gateway.Do(ctx, c, n.forward)
		s.finish(ctx, r, x, nil, answer, err)
		return
	}
	ctx, kept := s.keep(ctx, r)
	defer kept.end()
	onFrame := n.forward
	if kept != nil {
		c.Stream = kept.stream
		onFrame = func(f *busv1.Frame) {
			kept.took(ctx)
			n.forward(f)
		}
	}
	answer, err := s.bridge(ctx, r, x, c, kept, onFrame)
	s.finish(ctx, r, x, kept, answer, err)
}

// newCall is the call that a request asks for.
func newCall(r *Request, client *busv1.Client, level string) (*gateway.Call, error) {
	m := r.Message
	c := &gateway.Call{
		Door: r.Door, Method: m.Method, Name: m.P.Name, Arguments: m.P.Arguments,
		Credentials: r.Credentials, Client: client,
		WantsProgress: m.P.ProgressToken != nil, LogLevel: logLevel(level),
		InputResponses: m.P.InputResponses, RequestState: m.P.RequestState,
		IdempotencyKey: m.P.IdempotencyKey, Traceparent: m.P.Traceparent, Tracestate: m.P.Tracestate,
	}
	switch m.Method {
	case mcp.MethodResourcesRead:
		c.Name, c.Arguments = m.P.URI, nil
		if c.Name == "" {
			return nil, fault.New(fault.InvalidParams, "params.uri is missing")
		}
	case mcp.MethodComplete:
		c.Name, c.Arguments = "", m.Params
	default:
		if c.Name == "" {
			return nil, fault.New(fault.InvalidParams, "params.name is missing")
		}
	}
	return c, nil
}

// finish sends what a call came to.
func (s *Server) finish(ctx context.Context, r *Request, x Exchange, kept *answerStream, a *gateway.Answer, err error) {
	switch {
	case errors.Is(context.Cause(ctx), ErrCancelled):
		// No response is owed, and MCP forbids one from 2026-07-28 on.
	case err != nil && errors.Is(context.Cause(ctx), bus.ErrLeft):
		kept.left(ctx, 0)
	case err != nil && errors.Is(err, gateway.ErrInvalidArguments) && r.Version >= mcp.V20251125:
		// From 2025-11-25 on the model is told, so that it can do better.
		s.result(r, x, complete, toolError(fault.From(err)), nil, "")
	case err != nil:
		status, message := ErrorMessage(r.Message, r.Version, err)
		kept.sent(context.WithoutCancel(ctx), message, true)
		x.Respond(status, message)
	case a.Disconnect != nil:
		kept.left(ctx, time.Duration(a.Disconnect.RetryMs)*time.Millisecond)
	default:
		kept.mark()
		s.answer(r, x, a)
	}
}

func (s *Server) answer(r *Request, x Exchange, a *gateway.Answer) {
	switch {
	case a.Sent != nil:
		x.Respond(http.StatusOK, a.Sent.Json)
	case a.Result != nil && r.Modern() && r.Message.Method == mcp.MethodResourcesRead:
		s.result(r, x, complete, a.Result.Json, a.Result.Meta, uncached)
	case a.Result != nil:
		s.result(r, x, complete, a.Result.Json, a.Result.Meta, "")
	case a.InputRequired != nil && r.Modern():
		body := append([]byte(`{"inputRequests":{`), inner(a.InputRequired.InputRequests)...)
		body = append(body, '}')
		if len(a.InputRequired.RequestState) > 0 {
			body = appendQuoted(append(body, `,"requestState":`...), string(a.InputRequired.RequestState))
		}
		s.result(r, x, "input_required", append(body, '}'), nil, "")
	case a.Task != nil && r.Modern():
		s.result(r, x, "task", appendTask([]byte{'{'}, a.Task, false), nil, "")
	default:
		s.Refuse(r, x, fault.New(fault.Internal, "the service gave an answer that this version of the protocol has no form for"))
	}
}

// toolError is the result that tells a model why its arguments were refused.
func toolError(f *fault.Error) []byte {
	b := append([]byte(`{"content":[{"type":"text","text":`), appendQuoted(nil, f.Message)...)
	return append(b, `}],"isError":true}`...)
}

// notifier makes notifications of the frames of one call.
type notifier struct {
	token []byte
	x     Exchange
	// last is the progress sent last. MCP wants it to grow, which it does not
	// when a call is repeated after a lost peer.
	last float64
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
		n.x.Notify(notification(mcp.NotifyProgress, append(b, '}')))
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
		n.x.Notify(notification(mcp.NotifyMessage, append(b, '}')))
	}
}

// logLevel is unspecified for a level MCP does not know.
func logLevel(level string) busv1.LogLevel {
	return busv1.LogLevel(slices.Index(mcp.LogLevels, level) + 1)
}

// lists maps the methods that the catalogue answers to what they list.
var lists = map[string]catalogue.Kind{
	mcp.MethodToolsList: catalogue.Tools, mcp.MethodPromptsList: catalogue.Prompts,
	mcp.MethodResourcesList: catalogue.Resources, mcp.MethodTemplatesList: catalogue.Templates,
}

// list answers from ready-made bytes.
func (s *Server) list(ctx context.Context, r *Request, x Exchange, kind catalogue.Kind) {
	if kind == catalogue.Tools && !r.Modern() {
		kind = catalogue.LegacyTools
	}
	now := s.gateway.Catalogue().Now()
	if kind == catalogue.Resources && now.Lists() {
		s.listResources(ctx, r, x)
		return
	}
	page, err := now.Page(kind, r.Message.P.Cursor)
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	body := append(append(append(make([]byte, 0, len(page)+2), '{'), page...), '}')
	s.result(r, x, complete, body, nil, caching)
}
