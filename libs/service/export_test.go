package service

import "context"

// Within is how a call makes the context of its handler.
func Within() func(context.Context) context.Context { return (&Call{}).within }

// Health is what /readyz says of what WithHealth asks.
func Health(s *Service) error {
	_, err := s.checks[0].Look()
	return err
}
