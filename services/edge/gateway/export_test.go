package gateway

import (
	"time"

	"github.com/busbar-mcp/busbar/services/edge/quota"
)

// KeyLife is how long a key seals.
const KeyLife = keyLife

// SetNow gives a Sealer another clock.
func (s *Sealer) SetNow(now func() time.Time) { s.now = now }

// SetQuota gives Outcomes another quota.
func (o *Outcomes) SetQuota(q *quota.Quota) { o.quota = q }

// SetQuota gives Approvals another quota.
func (o *OnBus) SetQuota(q *quota.Quota) { o.quota = q }
