package service

import (
	"context"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// Answer has a service that does not run answer a request.
func Answer(s *Service, ctx context.Context, req *busv1.Request) (proto.Message, error) {
	return (&Running{service: s}).handle(ctx, req, nil)
}

// Health is what /readyz says of what WithHealth asks.
func Health(s *Service) error {
	_, err := s.checks[0].Look()
	return err
}
