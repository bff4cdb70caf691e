package service

import "context"

// Middleware wraps the handlers of a service for tools, resources, prompts, completions and lists,
// in calls and in runs of tasks. It calls next once, or refuses the call with an error of its own,
// such as Forbidden. The context that it gives to next is the handler's context. It must return the
// error of next unchanged: the errors by which a handler asks a question or becomes a task arrive
// there too.
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

// Method is the MCP method of the call, such as tools/call.
func (c *Call) Method() string { return c.req.Method }

// Name is the name of the called tool or prompt, or the URI that is read.
func (c *Call) Name() string { return c.req.Name }

// WithNamespace puts a name and an underscore before the name of each tool and prompt: in the
// namespace orders, place becomes orders_place. Two services on a bus cannot use the same tool
// name, and providers of models accept no dots in names.
func WithNamespace(name string) Option { return func(s *Service) { s.namespace = name + "_" } }
