package client

import (
	"context"
	"net/http"
	"strings"
	"testing"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// fakeGRPC answers what a real edge does not.
type fakeGRPC struct {
	gatewayv1.UnimplementedGatewayServiceServer
	tools func(ctx context.Context, cursor string) (*gatewayv1.ListToolsResponse, error)
	call  func(stream rpc.ServerStreamingServer[gatewayv1.CallToolResponse]) error
	batch func(stream rpc.BidiStreamingServer[gatewayv1.BatchToolsRequest, gatewayv1.BatchToolsResponse]) error
}

func (f *fakeGRPC) ListTools(ctx context.Context, r *gatewayv1.ListToolsRequest) (*gatewayv1.ListToolsResponse, error) {
	if f.tools == nil {
		return &gatewayv1.ListToolsResponse{}, nil
	}
	return f.tools(ctx, r.Cursor)
}

func (f *fakeGRPC) CallTool(_ *gatewayv1.CallToolRequest, stream rpc.ServerStreamingServer[gatewayv1.CallToolResponse]) error {
	return f.call(stream)
}

func (f *fakeGRPC) BatchTools(stream rpc.BidiStreamingServer[gatewayv1.BatchToolsRequest, gatewayv1.BatchToolsResponse]) error {
	return f.batch(stream)
}

// serve returns the server's URL.
func (f *fakeGRPC) serve(t *testing.T) string {
	t.Helper()
	l := listen(t)
	s := rpc.NewServer()
	gatewayv1.RegisterGatewayServiceServer(s, f)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return "grpc://" + l.Addr().String()
}

func TestGRPCMetadata(t *testing.T) {
	t.Parallel()
	var got metadata.MD
	url := (&fakeGRPC{tools: func(ctx context.Context, _ string) (*gatewayv1.ListToolsResponse, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return &gatewayv1.ListToolsResponse{}, nil
	}}).serve(t)
	o := Options{URL: url, Version: "1.2.3", Header: http.Header{"Authorization": {"Bearer x"}}}
	runTools(t, o).check(t, ExitOK, "", url+" offers no tools\n")
	if v := got.Get("authorization"); len(v) != 1 || v[0] != "Bearer x" {
		t.Errorf("authorization: %q", v)
	}
	if v := got.Get("user-agent"); len(v) != 1 || !strings.HasPrefix(v[0], "busbar/1.2.3 ") {
		t.Errorf("user-agent: %q", v)
	}
}

func TestGRPCTools(t *testing.T) {
	t.Parallel()
	tool := func(name, annotations string) []*gatewayv1.Tool {
		return []*gatewayv1.Tool{{Name: name, InputSchema: []byte(`{"type":"object"}`), Annotations: []byte(annotations)}}
	}
	pages := map[string]*gatewayv1.ListToolsResponse{
		"":  {Tools: tool("a", ""), NextCursor: "b"},
		"b": {Tools: tool("b", `{"readOnlyHint":"odd"}`), NextCursor: "c"},
		"c": {Tools: tool("c", `{"readOnlyHint":true}`)},
	}
	url := (&fakeGRPC{tools: func(_ context.Context, cursor string) (*gatewayv1.ListToolsResponse, error) {
		return pages[cursor], nil
	}}).serve(t)
	runTools(t, Options{URL: url}).check(t, ExitOK, "a\t\nc\t\n", `warning: tool "b" left out: `)
	again := (&fakeGRPC{tools: func(context.Context, string) (*gatewayv1.ListToolsResponse, error) { return pages[""], nil }}).serve(t)
	runTools(t, Options{URL: again}).check(t, ExitTransport, "", "error: the tool list has more than 1000 pages\n")
}

// Tests of what is not said in Busbar's words.
func TestGRPCForeignStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   codes.Code
		exit   int
		stderr string
	}{
		{codes.Unimplemented, ExitRefused, "answered Unimplemented: oops\\x1b\n  executed: no - nothing ran\n  next: check that --url names where an edge listens for gRPC\n"},
		{codes.Unauthenticated, ExitRefused, "answered Unauthenticated: oops\\x1b\n  executed: no - nothing ran\n  next: send the credentials that it wants\n"},
		{codes.Internal, ExitTransport, "answered Internal: oops\\x1b\n  executed: unknown - it may have run\n"},
		{codes.Unavailable, ExitTransport, ": oops\\x1b\n  executed: unknown - it may have run\n"},
		{codes.ResourceExhausted, ExitTransport, "answered ResourceExhausted: oops\\x1b\n  executed: unknown - it may have run\n"},
		{codes.OK, ExitTransport, "error: the call ended without a result\n  executed: unknown - it may have run\n"},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			t.Parallel()
			url := (&fakeGRPC{call: func(rpc.ServerStreamingServer[gatewayv1.CallToolResponse]) error {
				return status.Error(c.code, "oops\x1b")
			}}).serve(t)
			runCall(t, CallOptions{Options: Options{URL: url}, Name: "x"}, "").check(t, c.exit, "", c.stderr)
		})
	}
}

func TestGRPCBatchEnds(t *testing.T) {
	t.Parallel()
	type stream = rpc.BidiStreamingServer[gatewayv1.BatchToolsRequest, gatewayv1.BatchToolsResponse]
	for _, c := range []struct {
		name   string
		batch  func(stream) error
		stderr string
	}{
		{"early", func(s stream) error {
			_, err := s.Recv()
			return err
		}, "closed the connection before it answered\n"},
		{"with an error", func(s stream) error { return status.Error(codes.Internal, "oops") }, "answered Internal: oops\n"},
		{"with an outcome of no call", func(s stream) error { return s.Send(&gatewayv1.BatchToolsResponse{Index: 7}) }, "an outcome is of a call that was not made\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := BatchOptions{Options: Options{URL: (&fakeGRPC{batch: c.batch}).serve(t), Getenv: noEnv}, File: "-"}
			runBatch(t, o, strings.NewReader("{\"name\":\"x\"}\n{\"name\":\"x\"}\n")).check(t, ExitTransport, "", c.stderr)
		})
	}
}
