package gateway

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Approver holds calls that a person has to agree to.
type Approver interface {
	// Approve returns nil when the call may run now.
	Approve(ctx context.Context, c *Call) error
}

// approve asks only for tools that require a user's approval.
func approve(a Approver) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		if tool := c.Target.Tool; tool != nil && tool.RequiresUserApproval {
			if err := a.Approve(ctx, c); err != nil {
				return nil, err
			}
		}
		return next(ctx, c, onFrame)
	}
}

// nobody is the Approver of an edge that has nobody to ask.
type nobody struct{}

func (nobody) Approve(_ context.Context, c *Call) error {
	return fault.New(fault.Forbidden, "tool %s needs a person's approval for each call, which this edge cannot ask for", fault.Clip(c.Name))
}
