package grpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

func (s *service) ListApprovals(ctx context.Context, _ *gatewayv1.ListApprovalsRequest) (*gatewayv1.ListApprovalsResponse, error) {
	who := caller(ctx, "")
	held, err := s.api.Held(ctx, who)
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListApprovalsResponse{Calls: make([]*gatewayv1.HeldCall, len(held))}
	for i := range held {
		out.Calls[i] = heldCall(&held[i])
	}
	return out, nil
}

func (s *service) GetApproval(ctx context.Context, r *gatewayv1.GetApprovalRequest) (*gatewayv1.GetApprovalResponse, error) {
	who := caller(ctx, "")
	held, err := s.api.FindHeld(ctx, who, r.Approval)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.GetApprovalResponse{Call: heldCall(held)}, nil
}

func heldCall(h *api.Held) *gatewayv1.HeldCall {
	return &gatewayv1.HeldCall{
		Approval: h.Approval, Principal: h.Principal, Name: h.Name, Title: h.Title, Shown: h.Shown, Arguments: h.Parameters, Expires: timestamppb.New(h.Expires),
	}
}

func (s *service) Approve(ctx context.Context, r *gatewayv1.ApproveRequest) (*gatewayv1.ApproveResponse, error) {
	who := caller(ctx, "")
	result, err := s.api.Approve(ctx, who, r.Approval, r.Approve)
	if err != nil {
		return nil, err
	}
	out, err := toolResult(result)
	return &gatewayv1.ApproveResponse{Result: out}, err
}
