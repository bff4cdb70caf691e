package gateway

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// KeyLife is how long a key seals.
const KeyLife = keyLife

// SetNow gives a Sealer another clock.
func (s *Sealer) SetNow(now func() time.Time) { s.now = now }

// Delegate and Accept seal and open what a call's service calls others with.
func (s *Sealer) Delegate(ctx context.Context, c *Call, until time.Time) ([]byte, error) {
	return s.delegate(ctx, c, until)
}

func (s *Sealer) Accept(ctx context.Context, c *Call) error { return s.accept(ctx, c) }

// Over is the error of a held call whose time has passed.
func (h *HeldCall) Over() error { return h.over() }

// SetQuota gives Outcomes another quota.
func (o *Outcomes) SetQuota(q *quota.Quota) { o.quota = q }

// SetQuota gives Approvals another quota.
func (o *OnBus) SetQuota(q *quota.Quota) { o.quota = q }
