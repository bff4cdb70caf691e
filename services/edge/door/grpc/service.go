package grpc

import (
	"cmp"
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

// service answers the calls. Its methods are codecs of api.Operations, which protoc wants
// to be methods.
type service struct {
	gatewayv1.UnimplementedGatewayServiceServer
	api *api.Server
}

// page reads which part of a list a request asks for.
func page(r interface {
	GetCursor() string
	GetLimit() uint32
}) (api.Page, error) {
	limit := r.GetLimit()
	if limit > maxPage {
		return api.Page{}, fault.New(fault.InvalidParams, "limit is at most %d", maxPage)
	}
	return api.Page{Cursor: r.GetCursor(), Limit: int(cmp.Or(limit, defaultPage))}, nil
}

// list lists a page.
func list[T any](ctx context.Context, do func(context.Context, api.Caller, api.Page) (api.List[T], error), r interface {
	GetCursor() string
	GetLimit() uint32
}) (api.List[T], error) {
	p, err := page(r)
	if err != nil {
		return api.List[T]{}, err
	}
	return do(ctx, caller(ctx, ""), p)
}

func (s *service) ListTools(ctx context.Context, r *gatewayv1.ListToolsRequest) (*gatewayv1.ListToolsResponse, error) {
	tools, err := list(ctx, s.api.Tools, r)
	out := &gatewayv1.ListToolsResponse{NextCursor: tools.Next}
	for _, t := range tools.Entries {
		out.Tools = append(out.Tools, &gatewayv1.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
			RequiresUserApproval: t.RequiresUserApproval, Annotations: t.Annotations,
		})
	}
	return out, err
}

func (s *service) ListPrompts(ctx context.Context, r *gatewayv1.ListPromptsRequest) (*gatewayv1.ListPromptsResponse, error) {
	prompts, err := list(ctx, s.api.Prompts, r)
	return &gatewayv1.ListPromptsResponse{Prompts: raw(prompts), NextCursor: prompts.Next}, err
}

func (s *service) ListResources(ctx context.Context, r *gatewayv1.ListResourcesRequest) (*gatewayv1.ListResourcesResponse, error) {
	resources, err := list(ctx, s.api.Resources, r)
	return &gatewayv1.ListResourcesResponse{Resources: raw(resources), NextCursor: resources.Next}, err
}

func raw(l api.List[jsontext.Value]) [][]byte {
	out := make([][]byte, len(l.Entries))
	for i, v := range l.Entries {
		out[i] = v
	}
	return out
}

func (s *service) CallTool(r *gatewayv1.CallToolRequest, stream rpc.ServerStreamingServer[gatewayv1.CallToolResponse]) error {
	args, err := arguments(r)
	if err != nil {
		return err
	}
	who := caller(stream.Context(), r.IdempotencyKey)
	return follow(stream.Send, who, func(who api.Caller) (*api.Result, error) {
		return s.api.CallTool(stream.Context(), who, api.ToolCall{Name: r.Name, Parameters: args})
	})
}

// follow sends the progress and logs of a call, and its result.
func follow(send func(*gatewayv1.CallToolResponse) error, who api.Caller, do func(api.Caller) (*api.Result, error)) error {
	// Frames must not wait for a slow client; those that it is too slow for are dropped.
	frames := make(chan *gatewayv1.CallToolResponse, 256)
	var sending sync.WaitGroup
	sending.Go(func() {
		for f := range frames {
			_ = send(f) // sending the result shows whether the client is there
		}
	})
	who.OnFrame = func(f *busv1.Frame) {
		if e := event(f); e != nil {
			select {
			case frames <- e:
			default:
			}
		}
	}
	result, err := do(who)
	close(frames)
	sending.Wait()
	if err != nil {
		return err
	}
	return send(&gatewayv1.CallToolResponse{Event: &gatewayv1.CallToolResponse_Result{Result: toolResult(result)}})
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

// toolResult is a result in the form of this door; nil for nil.
func toolResult(r *api.Result) *gatewayv1.ToolResult {
	if r == nil {
		return nil
	}
	return &gatewayv1.ToolResult{Content: r.Content, StructuredContent: r.StructuredContent, IsError: r.IsError}
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
			if !yield(own.Call(mcp.MethodToolsCall, r.Name, args), err) {
				return
			}
			if r, err = stream.Recv(); err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
		}
	}, func(i int, r *api.Result, err error) {
		out := &gatewayv1.BatchToolsResponse{Index: uint64(i), Outcome: &gatewayv1.BatchToolsResponse_Result{Result: toolResult(r)}}
		if err != nil {
			f := fault.From(err)
			out.Outcome = &gatewayv1.BatchToolsResponse_Failure{Failure: &gatewayv1.Failure{
				Reason: string(f.Reason), Message: f.Message, Executed: string(f.Executed), RetryAfterMs: uint32(f.RetryAfter.Milliseconds()), Data: f.Data,
				Next: forms.Next(f, forms.GRPC),
			}}
		}
		if stream.Send(out) != nil {
			stop() // nobody reads
		}
	})
	return failed
}

func (s *service) ReadResource(ctx context.Context, r *gatewayv1.ReadResourceRequest) (*gatewayv1.ReadResourceResponse, error) {
	read, err := s.api.ReadResource(ctx, caller(ctx, ""), r.Uri)
	if err != nil {
		return nil, err
	}
	return &gatewayv1.ReadResourceResponse{Contents: read.Contents}, nil
}

func (s *service) GetPrompt(ctx context.Context, r *gatewayv1.GetPromptRequest) (*gatewayv1.GetPromptResponse, error) {
	who := caller(ctx, "")
	args, err := arguments(r)
	if err != nil {
		return nil, who.OfBody(mcp.MethodPromptsGet, err)
	}
	result, err := s.api.FillPrompt(ctx, who, api.PromptCall{Name: r.Name, Arguments: args})
	if err != nil {
		return nil, err
	}
	var out struct {
		Description string         `json:"description,omitzero"`
		Messages    jsontext.Value `json:"messages"`
	}
	if err := json.Unmarshal(result, &out); err != nil {
		return nil, fault.From(err)
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
