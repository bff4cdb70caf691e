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

func (s *service) ListElicitations(ctx context.Context, _ *gatewayv1.ListElicitationsRequest) (*gatewayv1.ListElicitationsResponse, error) {
	all, err := s.api.Elicitations(ctx, caller(ctx, ""))
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListElicitationsResponse{Elicitations: make([]*gatewayv1.Elicitation, len(all))}
	for i := range all {
		if out.Elicitations[i], err = elicitation(&all[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *service) GetElicitation(ctx context.Context, r *gatewayv1.GetElicitationRequest) (*gatewayv1.GetElicitationResponse, error) {
	found, err := s.api.FindElicitation(ctx, caller(ctx, ""), r.Elicitation)
	if err != nil {
		return nil, err
	}
	e, err := elicitation(found)
	return &gatewayv1.GetElicitationResponse{Elicitation: e}, err
}

func elicitation(e *api.Elicitation) (*gatewayv1.Elicitation, error) {
	out := &gatewayv1.Elicitation{Elicitation: e.Elicitation, Name: e.Name, Title: e.Title, Expires: timestamppb.New(e.Expires)}
	if e.Requests != nil {
		requests, err := json.Marshal(e.Requests, json.Deterministic(true))
		if err != nil {
			return nil, fault.From(err)
		}
		out.Requests = requests
	}
	return out, nil
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
