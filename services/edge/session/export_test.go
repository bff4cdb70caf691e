package session

import "github.com/busbar-mcp/busbar/services/edge/quota"

// SetQuota gives a store another quota.
func (s *OnBus) SetQuota(q *quota.Quota) { s.quota = q }
