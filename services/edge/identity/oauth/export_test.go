package oauth

import "time"

// Age makes the keys of an issuer older.
func (v *Verifier) Age(issuer string, by time.Duration) {
	s := v.issuers[issuer].keys
	s.mu.Lock()
	defer s.mu.Unlock()
	r := *s.now.Load()
	r.began = r.began.Add(-by)
	s.pause = s.pause.Add(-by)
	s.now.Store(&r)
}

// Waiting is how many requests wait for the keys of an issuer.
func (v *Verifier) Waiting(issuer string) int {
	s := v.issuers[issuer].keys
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

const MaxWaiting = maxWaiting

const MaxProofsOfKey = maxProofsOfKey

type Proofs = proofs

func NewProofs() *Proofs { return newProofs() }

func (p *proofs) Use(thumbprint, id string, now time.Time) error { return p.use(thumbprint, id, now) }

func (p *proofs) Len() int { return len(p.order) }

// SameAudience compares two audiences.
func SameAudience(a, b string) bool { return newAudiences([]string{a}).has(b) }
