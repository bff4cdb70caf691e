package service

import "context"

// Middleware stands around the handlers of a service: of tools, resources, prompts, completions and
// lists, in calls and in runs of tasks. It calls next once, or refuses the call with an error of
// its own, such as Forbidden. The context that it gives to next is the handler's. next returns the
// handler's result unchanged: a question that is asked, and a call that becomes a task, are errors
// too, which go on unchanged.
type Middleware func(ctx context.Context, call *Call, next func(context.Context) error) error

// WithMiddleware puts middleware around every handler; the first one is outermost.
func WithMiddleware(all ...Middleware) Option {
	return func(s *Service) {
		s.register("middleware", func() error {
			for _, m := range all {
				if m == nil {
					return errNoFunction
				}
			}
			s.middleware = append(s.middleware, all...)
			return nil
		})
	}
}

// Method is the method of MCP that the call is of, such as tools/call.
func (c *Call) Method() string { return c.req.Method }

// Name is the tool or the prompt that is called, or the URI that is read.
func (c *Call) Name() string { return c.req.Name }

// WithNamespace puts a name and an underscore before the name of each tool and prompt
// that is added: place of the namespace orders is orders_place. Two services of a bus
// cannot have one name, and models' providers take no dots in names.
func WithNamespace(name string) Option { return func(s *Service) { s.namespace = name + "_" } }
