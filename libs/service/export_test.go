package service

import "context"

// Within returns the function by which a call makes the context of its handler.
func Within() func(context.Context) context.Context { return (&Call{}).within }

// Health returns the result of the WithHealth checks, as /readyz shows it.
func Health(s *Service) error {
	_, err := s.checks[0].Look()
	return err
}
