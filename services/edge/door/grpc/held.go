package grpc

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func (s *service) ListApprovals(ctx context.Context, _ *gatewayv1.ListApprovalsRequest) (*gatewayv1.ListApprovalsResponse, error) {
	all, err := held(ctx, s, gateway.ForApproval, heldCall)
	return &gatewayv1.ListApprovalsResponse{Calls: all}, err
}

func (s *service) ListElicitations(ctx context.Context, _ *gatewayv1.ListElicitationsRequest) (*gatewayv1.ListElicitationsResponse, error) {
	all, err := held(ctx, s, gateway.ForAnswers, elicitation)
	return &gatewayv1.ListElicitationsResponse{Elicitations: all}, err
}

func held[M any](ctx context.Context, s *service, ask *gateway.Ask, message func(*api.Held) (M, error)) ([]M, error) {
	all, err := s.api.Held(ctx, ask, caller(ctx, ""))
	out := make([]M, len(all))
	for i := range all {
		if out[i], err = message(&all[i]); err != nil {
			break
		}
	}
	return out, err
}

func (s *service) GetApproval(ctx context.Context, r *gatewayv1.GetApprovalRequest) (*gatewayv1.GetApprovalResponse, error) {
	call, err := findHeld(ctx, s, gateway.ForApproval, r.Approval, heldCall)
	return &gatewayv1.GetApprovalResponse{Call: call}, err
}

func (s *service) GetElicitation(ctx context.Context, r *gatewayv1.GetElicitationRequest) (*gatewayv1.GetElicitationResponse, error) {
	e, err := findHeld(ctx, s, gateway.ForAnswers, r.Elicitation, elicitation)
	return &gatewayv1.GetElicitationResponse{Elicitation: e}, err
}

func findHeld[M any](ctx context.Context, s *service, ask *gateway.Ask, id string, message func(*api.Held) (M, error)) (none M, _ error) {
	found, err := s.api.FindHeld(ctx, ask, caller(ctx, ""), id)
	if err != nil {
		return none, err
	}
	return message(found)
}

func heldCall(h *api.Held) (*gatewayv1.HeldCall, error) {
	return &gatewayv1.HeldCall{
		Approval: h.Approval, Principal: h.Principal, Name: h.Name, Title: h.Title, Shown: h.Shown, Arguments: h.Parameters, Expires: timestamppb.New(h.Expires),
	}, nil
}

func elicitation(h *api.Held) (e *gatewayv1.Elicitation, err error) {
	e = &gatewayv1.Elicitation{Elicitation: h.Elicitation, Name: h.Name, Title: h.Title, Expires: timestamppb.New(h.Expires)}
	if h.Requests != nil {
		e.Requests, err = json.Marshal(h.Requests, json.Deterministic(true))
	}
	return e, err
}

func (s *service) Approve(ctx context.Context, r *gatewayv1.ApproveRequest) (*gatewayv1.ApproveResponse, error) {
	result, err := s.api.Approve(ctx, caller(ctx, ""), r.Approval, r.Approve)
	if err != nil {
		return nil, err
	}
	out, err := toolResult(result)
	return &gatewayv1.ApproveResponse{Result: out}, err
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
	return follow(send, func(onFrame gateway.OnFrame) (jsontext.Value, error) {
		return s.api.Answer(stream.Context(), caller(stream.Context(), ""), r.Elicitation, responses, onFrame)
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
