package gateway

import "context"

// Deduplicator makes a repeated call with the same idempotency key return the
// first one's answer.
type Deduplicator interface {
	// Once runs the call, or returns the answer of the same call made before.
	// The same key with other parameters is a *fault.Error with reason Conflict.
	Once(ctx context.Context, c *Call, run func(context.Context) (*Answer, error)) (*Answer, error)
}

func deduplicate(d Deduplicator) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if c.IdempotencyKey == "" {
			return next(ctx, c, onFrame)
		}
		return d.Once(ctx, c, func(ctx context.Context) (*Answer, error) { return next(ctx, c, onFrame) })
	}
}
