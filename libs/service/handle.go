package service

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// handle routes a request to the handler of its method and name.
func (r *Running) handle(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
	call, err := r.newCall(req, out)
	if err != nil {
		return nil, err
	}
	return r.service.answer(call.within(ctx), call)
}

// newCall makes the Call that a request's handler receives.
func (r *Running) newCall(req *busv1.Request, out output) (*Call, error) {
	c := &Call{req: req, out: out, instance: r}
	if len(req.RequestState) == 0 && len(req.InputResponses) == 0 {
		return c, nil
	}
	return c, c.openAnswers()
}

func (s *Service) answer(ctx context.Context, call *Call) (proto.Message, error) {
	result, err := s.handled(ctx, call)
	if f := new(fault.Error); call.ranOthers.Load() && errors.As(err, &f) && f.Executed == fault.No {
		err = f.Ran(fault.Unknown) // "no" is about the last tool called, or this call alone
	}
	if own := asFailure(err); own != nil && call.req.Method == mcp.MethodToolsCall {
		result, err = own.result()
		call.mark(result)
	}
	if err == nil {
		return result, nil
	}
	if errors.Is(err, errTask) {
		return call.task()
	}
	if ask := asInputRequired(err); ask != nil {
		return ask.wire(call)
	}
	if own := asFailure(err); own != nil {
		return nil, own.fault(call.req)
	}
	return nil, err
}

var errNoResult = errors.New("middleware returned no error, but there is no result: the handler failed, or was not called")

// handled runs the handler of a call inside the middleware.
func (s *Service) handled(ctx context.Context, call *Call) (*busv1.Result, error) {
	if len(s.middleware) == 0 {
		return s.dispatch(ctx, call)
	}
	var result *busv1.Result
	next := func(ctx context.Context) (err error) {
		result, err = s.dispatch(ctx, call)
		return err
	}
	for _, m := range slices.Backward(s.middleware) {
		inner := next
		next = func(ctx context.Context) error { return m(ctx, call, inner) }
	}
	err := next(ctx)
	if err == nil && result == nil {
		err = errNoResult
	}
	return result, err
}

func (s *Service) dispatch(ctx context.Context, call *Call) (*busv1.Result, error) {
	switch call.req.Method {
	case mcp.MethodToolsCall:
		return s.callTool(ctx, call)
	case mcp.MethodResourcesRead:
		return s.readResource(ctx, call)
	case mcp.MethodResourcesList:
		return s.listResources(ctx, call)
	case mcp.MethodPromptsGet:
		return s.getPrompt(ctx, call)
	case mcp.MethodPromptsList:
		return s.listPrompts(ctx, call)
	case mcp.MethodComplete:
		return s.complete(ctx, call)
	case mcp.MethodSample:
		return s.createMessage(ctx, call)
	}
	return s.handleOther(ctx, call)
}

// HandleFunc answers a request whose method is not from MCP. name and params come from the request;
// the value is marshalled to JSON. The caller receives errors as for a resource.
type HandleFunc func(ctx context.Context, call *Call, name string, params []byte) (any, error)

// Handle makes f answer a method that is not from MCP but has a subject on the bus, such as
// bus.AuditQuery. Edges and services can call it, clients cannot.
func (s *Service) Handle(method string, f HandleFunc) {
	s.register("method "+method, func() error {
		if f == nil {
			return errNoFunction
		}
		if s.handlers[method] != nil {
			return errors.New("added twice")
		}
		s.handlers[method] = f
		return nil
	})
}

func (s *Service) handleOther(ctx context.Context, call *Call) (*busv1.Result, error) {
	f := look(s, func() HandleFunc { return s.handlers[call.req.Method] })
	if f == nil {
		return nil, methodNotFound(call.req.Method)
	}
	value, err := f(ctx, call, call.req.Name, call.req.Arguments)
	if err != nil {
		return nil, err
	}
	data, err := marshal(value)
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}

func methodNotFound(method string) error {
	return fault.New(fault.MethodNotFound, "the service does not serve %s", fault.Clip(method))
}
