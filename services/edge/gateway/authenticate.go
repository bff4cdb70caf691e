package gateway

import "context"

// Authenticator establishes who calls.
type Authenticator interface {
	// Authenticate returns the principal of the credentials, or a *fault.Error
	// with reason Unauthenticated.
	Authenticate(ctx context.Context, c Credentials) (Principal, error)
}

func authenticate(a Authenticator) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		p, err := a.Authenticate(ctx, c.Credentials)
		if err != nil {
			return nil, err
		}
		c.Principal = p
		return next(ctx, c, onFrame)
	}
}
