package service

import (
	"context"
	"errors"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// SampleFunc asks a model. params have been checked. If the answer has several blocks, its content
// is an array.
type SampleFunc func(ctx context.Context, call *Call, params *mcp.CreateMessageParams) (*Sampled, error)

// HandleSampling makes this a service with a model. Callers that are not MCP clients, such as
// scripts over REST, reach it with sampling/createMessage through an edge; MCP clients do not,
// because they bring their own models. If a bus has several such services, the one that started
// first is asked.
func (s *Service) HandleSampling(f SampleFunc) {
	s.register("sampling", func() error {
		if f == nil {
			return errNoFunction
		}
		if s.sample != nil {
			return errors.New("added twice")
		}
		s.sample = f
		return nil
	})
}

func (s *Service) createMessage(ctx context.Context, call *Call) (*busv1.Result, error) {
	f := look(s, func() SampleFunc { return s.sample })
	if f == nil {
		return nil, methodNotFound(call.req.Method)
	}
	params, err := mcp.ReadCreateMessage(call.req.Arguments)
	if err != nil {
		return nil, err
	}
	sampled, err := f(ctx, call, params)
	if err != nil {
		return nil, err
	}
	if sampled == nil || sampled.Role == "" || sampled.Model == "" || len(sampled.Content) == 0 {
		return nil, fault.New(fault.Internal, "service %s gave an answer without role, content or model", s.name)
	}
	data, err := marshal(sampled)
	if err != nil {
		return nil, err
	}
	return &busv1.Result{Json: data}, nil
}
