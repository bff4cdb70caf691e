package gateway

import "context"

// Authorizer decides who may call what.
type Authorizer interface {
	// Authorize returns nil, or a *fault.Error with reason Forbidden. It reads
	// the call's own fields, never HTTP headers.
	Authorize(ctx context.Context, c *Call) error
}

func authorize(a Authorizer) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if err := a.Authorize(ctx, c); err != nil {
			return nil, err
		}
		return next(ctx, c, onFrame)
	}
}
