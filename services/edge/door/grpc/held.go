package grpc

import (
	"context"

	"github.com/go-json-experiment/json"
	rpc "google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

func (s *service) ListApprovals(ctx context.Context, _ *gatewayv1.ListApprovalsRequest) (*gatewayv1.ListApprovalsResponse, error) {
	held, err := s.api.Approvals(ctx, caller(ctx, ""), api.None{})
	out := &gatewayv1.ListApprovalsResponse{Calls: make([]*gatewayv1.HeldCall, len(held.Entries))}
	for i := range held.Entries {
		out.Calls[i] = heldCall(&held.Entries[i])
	}
	return out, err
}

func (s *service) GetApproval(ctx context.Context, r *gatewayv1.GetApprovalRequest) (*gatewayv1.GetApprovalResponse, error) {
	held, err := s.api.FindApproval(ctx, caller(ctx, ""), r.Approval)
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
	result, err := s.api.Approve(ctx, caller(ctx, ""), api.Decision{Approval: r.Approval, Approve: &r.Approve})
	return &gatewayv1.ApproveResponse{Result: toolResult(result)}, err
}

func (s *service) ListElicitations(ctx context.Context, _ *gatewayv1.ListElicitationsRequest) (*gatewayv1.ListElicitationsResponse, error) {
	all, err := s.api.Elicitations(ctx, caller(ctx, ""), api.None{})
	out := &gatewayv1.ListElicitationsResponse{Elicitations: make([]*gatewayv1.Elicitation, len(all.Entries))}
	for i := 0; i < len(all.Entries) && err == nil; i++ {
		out.Elicitations[i], err = elicitation(&all.Entries[i])
	}
	return out, err
}

func (s *service) GetElicitation(ctx context.Context, r *gatewayv1.GetElicitationRequest) (*gatewayv1.GetElicitationResponse, error) {
	found, err := s.api.FindElicitation(ctx, caller(ctx, ""), r.Elicitation)
	if err != nil {
		return nil, err
	}
	e, err := elicitation(found)
	return &gatewayv1.GetElicitationResponse{Elicitation: e}, err
}

func elicitation(e *api.Held) (*gatewayv1.Elicitation, error) {
	out := &gatewayv1.Elicitation{Elicitation: e.Elicitation, Name: e.Name, Title: e.Title, Expires: timestamppb.New(e.Expires)}
	if e.Requests == nil {
		return out, nil
	}
	var err error
	out.Requests, err = json.Marshal(e.Requests, json.Deterministic(true))
	return out, err
}

func (s *service) AnswerElicitation(r *gatewayv1.AnswerElicitationRequest, stream rpc.ServerStreamingServer[gatewayv1.AnswerElicitationResponse]) error {
	responses, err := object("responses", r.Responses, r.ResponsesText)
	switch {
	case err != nil:
		return err
	case responses == nil:
		return fault.New(fault.InvalidRequest, "responses is missing: a JSON object that has for each of the requests {\"action\":…}")
	}
	send := func(m *gatewayv1.CallToolResponse) error { return stream.Send(answered(m)) }
	return follow(send, caller(stream.Context(), ""), func(who api.Caller) (*api.Result, error) {
		return s.api.Answer(stream.Context(), who, api.Answers{Elicitation: r.Elicitation, Responses: responses})
	})
}

// answered is a message of CallTool as a message of AnswerElicitation.
func answered(m *gatewayv1.CallToolResponse) *gatewayv1.AnswerElicitationResponse {
	switch e := m.Event.(type) {
	case *gatewayv1.CallToolResponse_Progress:
		return &gatewayv1.AnswerElicitationResponse{Event: &gatewayv1.AnswerElicitationResponse_Progress{Progress: e.Progress}}
	case *gatewayv1.CallToolResponse_Log:
		return &gatewayv1.AnswerElicitationResponse{Event: &gatewayv1.AnswerElicitationResponse_Log{Log: e.Log}}
	}
	return &gatewayv1.AnswerElicitationResponse{Event: &gatewayv1.AnswerElicitationResponse_Result{Result: m.GetResult()}}
}
