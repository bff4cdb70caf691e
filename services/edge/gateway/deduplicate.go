package gateway

import "context"

// Deduplicator makes a repeated call with the same idempotency key return the
// first one's answer.
type Deduplicator interface {
	// Once runs the call, or returns the answer of the same call made before and
	// sets c.Replayed. The same key with other parameters is a *fault.Error with
	// reason Conflict.
	Once(ctx context.Context, c *Call, run func(context.Context) (*Answer, error)) (*Answer, error)
}

// deduplicate stands before approval: what was done need not be agreed to
// again. Calls without an effect may run again, and some services keep keys
// better than an edge can, with their data.
func deduplicate(d Deduplicator) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if c.IdempotencyKey == "" || !c.Effect() || c.Target.Tool == nil || c.Target.Tool.KeepsKeys {
			return next(ctx, c, onFrame)
		}
		return d.Once(ctx, c, func(ctx context.Context) (*Answer, error) { return next(ctx, c, onFrame) })
	}
}
