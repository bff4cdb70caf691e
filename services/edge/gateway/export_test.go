package gateway

import "time"

// KeyLife is how long a key seals.
const KeyLife = keyLife

// SetNow gives a Sealer another clock.
func (s *Sealer) SetNow(now func() time.Time) { s.now = now }
