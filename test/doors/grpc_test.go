package doors

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// grpcDoors speak gRPC.
var grpcDoors = []door{
	{name: "gRPC CallTool", kind: "grpc", call: callTool, words: grpcCode, silent: map[place]bool{atBody: true}},
	{name: "gRPC BatchTools", kind: "grpc", call: batchTools, words: none, elsewhere: map[place]words{atBody: grpcCode, atIdentity: grpcCode}, silent: map[place]bool{atBody: true}},
}

func withToken(ctx context.Context, c call) context.Context {
	if parent := parentOf(ctx); parent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

func callTool(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	stream, err := w.grpc.CallTool(withToken(ctx, c), &gatewayv1.CallToolRequest{Name: c.tool, Arguments: []byte(c.arguments)})
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			return status(t, err)
		}
		if r := m.GetResult(); r != nil {
			o = toolResult(t, r)
		}
	}
}

func batchTools(ctx context.Context, t *testing.T, w *world, c call) outcome {
	t.Helper()
	stream, err := w.grpc.BatchTools(withToken(ctx, c))
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&gatewayv1.BatchToolsRequest{Name: c.tool, Arguments: []byte(c.arguments)}) // Recv says why not
	_ = stream.CloseSend()
	m, err := stream.Recv()
	if err != nil {
		return status(t, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("a batch of one ends with %v", err)
	}
	f := m.GetFailure()
	if f == nil {
		return toolResult(t, m.GetResult())
	}
	o := outcome{reason: f.Reason, executed: f.Executed, retryMs: int64(f.RetryAfterMs)}
	if len(f.Data) > 0 {
		var members map[string]jsontext.Value
		if err := json.Unmarshal(f.Data, &members); err != nil {
			t.Errorf("%v: %s", err, f.Data)
		}
		o.data = facts(members)
	}
	return o
}

func toolResult(t *testing.T, r *gatewayv1.ToolResult) outcome {
	t.Helper()
	o := result(t, jsontext.Value(`{"content":`+string(r.Content)+`}`))
	o.structured, o.isError = string(r.StructuredContent), r.IsError
	return o
}

// status reads a status and its details.
func status(t *testing.T, err error) outcome {
	t.Helper()
	s, _ := rpcstatus.FromError(err)
	var o outcome
	for said, code := range grpcCodes(t) {
		if code == s.Code() {
			o.said = said
		}
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain != "busbar" {
				t.Errorf("domain %q", d.Domain)
			}
			o.reason, o.executed = d.Reason, d.Metadata["executed"]
			for name, v := range d.Metadata {
				if name != "executed" && name != "next" {
					if o.data == nil {
						o.data = map[string]string{}
					}
					o.data[name] = v
				}
			}
		case *errdetails.RetryInfo:
			o.retryMs = d.RetryDelay.AsDuration().Milliseconds()
		}
	}
	return o
}

// grpcCodes are the codes by the names that documents give them.
func grpcCodes(t *testing.T) map[string]codes.Code {
	t.Helper()
	out := map[string]codes.Code{}
	for _, name := range []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	} {
		var c codes.Code
		if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
			t.Fatal(err)
		}
		out[name] = c
	}
	return out
}

// metadataOf returns the metadata of the ErrorInfo of a status.
func metadataOf(t *testing.T, err error) map[string]string {
	t.Helper()
	s, _ := rpcstatus.FromError(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Metadata
		}
	}
	t.Errorf("no details: %v", err)
	return nil
}
