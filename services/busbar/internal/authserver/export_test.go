package authserver

import "time"

// SetNow has the server take another time for now. Nobody asks it meanwhile.
func (s *Server) SetNow(now func() time.Time) { s.now = now }

// MaxHeld is how many codes and logins are kept of a user.
const MaxHeld = maxHeld

// Held counts what is kept: codes, and logins that may be renewed.
func (s *Server) Held() (codes, families int) {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	return len(s.grants.codes.all), len(s.grants.families.all)
}
