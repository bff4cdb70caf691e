package service

import (
	"context"
	"errors"
	"slices"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Middleware stands around the handlers of a service: of tools, resources, prompts,
// completions and lists, in calls and in runs of tasks. It calls next once, or refuses
// the call with an error of its own, such as Forbidden. The context that it gives to next
// is the handler's. What next returns is what the handler returned, before anything is
// made of it: a question that is asked, and a call that becomes a task, are errors too,
// which go on unchanged.
type Middleware func(ctx context.Context, call *Call, next func(context.Context) error) error

// WithMiddleware puts middleware around every handler; the first one is outermost.
func WithMiddleware(all ...Middleware) Option {
	return func(s *Service) { s.middleware = append(s.middleware, all...) }
}

// Method is the method of MCP that the call is of, such as tools/call.
func (c *Call) Method() string { return c.req.Method }

// Name is the tool or the prompt that is called, or the URI that is read.
func (c *Call) Name() string { return c.req.Name }

var errNoResult = errors.New("middleware returned no error, but there is no result: the handler failed, or was not called")

// handled runs the handler of a call within the middleware.
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

// WithNamespace puts a name and an underscore before the name of each tool and prompt
// that is added: place of the namespace orders is orders_place. Two services of a bus
// cannot have one name, and models' providers take no dots in names.
func WithNamespace(name string) Option { return func(s *Service) { s.namespace = name + "_" } }
