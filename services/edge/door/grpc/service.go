package grpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// service answers the calls.
type service struct {
	gatewayv1.UnimplementedGatewayServiceServer
	api *api.Server
}

func pageSize(limit uint32) (int, error) {
	switch {
	case limit == 0:
		return defaultPage, nil
	case limit > maxPage:
		return 0, fault.New(fault.InvalidParams, "limit is at most %d", maxPage)
	}
	return int(limit), nil
}

func (s *service) ListTools(ctx context.Context, r *gatewayv1.ListToolsRequest) (*gatewayv1.ListToolsResponse, error) {
	limit, err := pageSize(r.Limit)
	if err != nil {
		return nil, err
	}
	tools, next, err := s.api.Tools(ctx, caller(ctx, ""), r.Cursor, limit)
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListToolsResponse{NextCursor: next}
	for _, t := range tools {
		out.Tools = append(out.Tools, &gatewayv1.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
			RequiresUserApproval: t.RequiresUserApproval, Annotations: t.Annotations,
		})
	}
	return out, nil
}

func (s *service) ListPrompts(ctx context.Context, r *gatewayv1.ListPromptsRequest) (*gatewayv1.ListPromptsResponse, error) {
	limit, err := pageSize(r.Limit)
	if err != nil {
		return nil, err
	}
	prompts, next, err := s.api.Prompts(ctx, caller(ctx, ""), r.Cursor, limit)
	return &gatewayv1.ListPromptsResponse{Prompts: raw(prompts), NextCursor: next}, err
}

func (s *service) ListResources(ctx context.Context, r *gatewayv1.ListResourcesRequest) (*gatewayv1.ListResourcesResponse, error) {
	limit, err := pageSize(r.Limit)
	if err != nil {
		return nil, err
	}
	who := caller(ctx, "")
	resources, next, err := s.api.Resources(ctx, who, r.Cursor, limit)
	return &gatewayv1.ListResourcesResponse{Resources: raw(resources), NextCursor: next}, err
}

func raw(values []jsontext.Value) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func (s *service) CallTool(r *gatewayv1.CallToolRequest, stream rpc.ServerStreamingServer[gatewayv1.CallToolResponse]) error {
	who := caller(stream.Context(), r.IdempotencyKey)
	args, err := arguments(r)
	if err != nil {
		return err
	}
	return follow(stream.Send, func(onFrame gateway.OnFrame) (jsontext.Value, error) {
		return s.api.Do(stream.Context(), who.Call(mcp.MethodToolsCall, r.Name, args, onFrame), onFrame)
	})
}

// follow sends the progress and logs of a call, and its result.
func follow(send func(*gatewayv1.CallToolResponse) error, do func(gateway.OnFrame) (jsontext.Value, error)) error {
	// Frames must not wait for a slow client; those that it is too slow for are dropped.
	frames := make(chan *gatewayv1.CallToolResponse, 256)
	var sending sync.WaitGroup
	sending.Go(func() {
		for f := range frames {
			_ = send(f) // sending the result shows whether the client is there
		}
	})
	result, err := do(func(f *busv1.Frame) {
		if e := event(f); e != nil {
			select {
			case frames <- e:
			default:
			}
		}
	})
	close(frames)
	sending.Wait()
	if err != nil {
		return err
	}
	out, err := toolResult(result)
	if err != nil {
		return err
	}
	return send(&gatewayv1.CallToolResponse{Event: &gatewayv1.CallToolResponse_Result{Result: out}})
}

func event(f *busv1.Frame) *gatewayv1.CallToolResponse {
	p, l := api.ReadFrame(f)
	switch {
	case p != nil:
		return &gatewayv1.CallToolResponse{Event: &gatewayv1.CallToolResponse_Progress{
			Progress: &gatewayv1.Progress{Progress: p.Progress, Total: p.Total, Message: p.Message}}}
	case l != nil:
		return &gatewayv1.CallToolResponse{Event: &gatewayv1.CallToolResponse_Log{
			Log: &gatewayv1.Log{Level: l.Level, Logger: l.Logger, Data: l.Data}}}
	}
	return nil
}

func toolResult(result jsontext.Value) (*gatewayv1.ToolResult, error) {
	r, err := api.ReadResult(result)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ToolResult{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}, nil
}

func (s *service) BatchTools(stream rpc.BidiStreamingServer[gatewayv1.BatchToolsRequest, gatewayv1.BatchToolsResponse]) error {
	who := caller(stream.Context(), "")
	first, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	var failed error
	s.api.Batch(ctx, int(min(first.Parallel, gateway.MaxParallel)), func(yield func(*gateway.Call, error) bool) {
		for r := first; ; {
			own := who
			own.IdempotencyKey = r.IdempotencyKey
			args, err := arguments(r)
			if !yield(own.Call(mcp.MethodToolsCall, r.Name, args, nil), err) {
				return
			}
			if r, err = stream.Recv(); err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
		}
	}, func(i int, result jsontext.Value, err error) {
		out := &gatewayv1.BatchToolsResponse{Index: uint64(i)}
		var r *gatewayv1.ToolResult
		if err == nil {
			r, err = toolResult(result)
		}
		if err != nil {
			f := fault.From(err)
			out.Outcome = &gatewayv1.BatchToolsResponse_Failure{Failure: &gatewayv1.Failure{
				Reason: string(f.Reason), Message: f.Message, Executed: string(f.Executed), RetryAfterMs: uint32(f.RetryAfter.Milliseconds()), Data: f.Data,
				Next: forms.Next(f, forms.GRPC),
			}}
		} else {
			out.Outcome = &gatewayv1.BatchToolsResponse_Result{Result: r}
		}
		if stream.Send(out) != nil {
			stop() // nobody reads
		}
	})
	return failed
}

// do makes a call and reads its result into v.
func (s *service) do(ctx context.Context, method, name string, arguments jsontext.Value, v any) error {
	who := caller(ctx, "")
	result, err := s.api.Do(ctx, who.Call(method, name, arguments, nil), nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(result, v); err != nil {
		return fault.From(err)
	}
	return nil
}

func (s *service) ReadResource(ctx context.Context, r *gatewayv1.ReadResourceRequest) (*gatewayv1.ReadResourceResponse, error) {
	var out struct {
		Contents jsontext.Value `json:"contents"`
	}
	if err := s.do(ctx, mcp.MethodResourcesRead, r.Uri, nil, &out); err != nil {
		return nil, err
	}
	return &gatewayv1.ReadResourceResponse{Contents: out.Contents}, nil
}

func (s *service) GetPrompt(ctx context.Context, r *gatewayv1.GetPromptRequest) (*gatewayv1.GetPromptResponse, error) {
	var out struct {
		Description string         `json:"description,omitzero"`
		Messages    jsontext.Value `json:"messages"`
	}
	args, err := arguments(r)
	if err != nil {
		return nil, caller(ctx, "").OfBody(mcp.MethodPromptsGet, err)
	}
	if err := s.do(ctx, mcp.MethodPromptsGet, r.Name, args, &out); err != nil {
		return nil, err
	}
	return &gatewayv1.GetPromptResponse{Description: out.Description, Messages: out.Messages}, nil
}

// maxWatched bounds the resources of one watch.
const maxWatched = 200

func (s *service) Watch(r *gatewayv1.WatchRequest, stream rpc.ServerStreamingServer[gatewayv1.WatchResponse]) error {
	lease, err := s.api.Lease(stream.Context(), caller(stream.Context(), ""))
	if err != nil {
		return err
	}
	defer lease.Close()
	if len(r.Uris) > maxWatched {
		return fault.New(fault.TooLarge, "one watch is of at most %d resources", maxWatched)
	}
	for _, uri := range r.Uris {
		if err := catalogue.CheckURI(uri); err != nil {
			return err
		}
	}
	sub := lease.Subscribe(func(uri string) bool { return slices.Contains(r.Uris, uri) })
	defer sub.Close()
	if err := stream.Send(&gatewayv1.WatchResponse{}); err != nil {
		return err
	}
	for {
		select {
		case <-sub.C:
			changed, uris := sub.Take()
			out := &gatewayv1.WatchResponse{
				Tools: r.Tools && changed&catalogue.ToolsChanged != 0, Prompts: r.Prompts && changed&catalogue.PromptsChanged != 0,
				Resources: r.Resources && changed&catalogue.ResourcesChanged != 0, Uris: uris,
			}
			if !out.Tools && !out.Prompts && !out.Resources && len(uris) == 0 {
				continue
			}
			if err := stream.Send(out); err != nil {
				return err
			}
		case <-s.api.Closing():
			return nil
		case <-lease.Context().Done():
			if err := lease.Ended(); err != nil {
				return err
			}
			return fault.New(fault.Cancelled, "cancelled")
		}
	}
}
