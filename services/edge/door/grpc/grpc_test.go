package grpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is an edge with gRPC in front and a service behind it.
type world struct {
	gatewayv1.GatewayServiceClient
	*edgetest.World
	conn *rpc.ClientConn
	// grpc and metrics are the addresses at which the edge listens.
	grpc, metrics string
}

func start(t *testing.T, with ...func(*edgetest.Service)) *world {
	t.Helper()
	w := &world{World: edgetest.StartBus(t, with...)}
	e := w.Join(t)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	g, m := listen(), listen()
	w.grpc, w.metrics = g.Addr().String(), m.Addr().String()
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ServeAll(serving, &edge.Listeners{HTTP: listen(), GRPC: g, Metrics: m}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var err error
	if w.conn, err = rpc.NewClient(w.grpc, rpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close() })
	w.GatewayServiceClient = gatewayv1.NewGatewayServiceClient(w.conn)
	return w
}

// call calls a tool and returns the messages before the result, and the result.
func (w *world) call(ctx context.Context, name, arguments string) (before []*gatewayv1.CallToolResponse, result *gatewayv1.ToolResult, err error) {
	stream, err := w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: name, Arguments: []byte(arguments)})
	if err != nil {
		return nil, nil, err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return before, result, nil
		}
		if err != nil {
			return before, nil, err
		}
		if r := m.GetResult(); r != nil {
			result = r
		} else {
			before = append(before, m)
		}
	}
}

// refused requires a status with Busbar's details.
func refused(t *testing.T, err error, code codes.Code, reason, executed string) *errdetails.ErrorInfo {
	t.Helper()
	s, _ := rpcstatus.FromError(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if s.Code() != code || info.Reason != reason || info.Domain != "busbar" || info.Metadata["executed"] != executed {
				t.Errorf("got %v %v, want %v %s %s", s, info, code, reason, executed)
			}
			return info
		}
	}
	t.Fatalf("no details: %v", err)
	return nil
}

// notBegun reports whether a call ended before its tool ran.
func notBegun(err error) bool {
	s, _ := rpcstatus.FromError(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Metadata["executed"] == "no"
		}
	}
	return false
}

func TestLists(t *testing.T) {
	t.Parallel()
	w := start(t)
	var names []string
	for cursor := ""; ; {
		page, err := w.ListTools(t.Context(), &gatewayv1.ListToolsRequest{Cursor: cursor, Limit: 4})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range page.Tools {
			if !strings.HasPrefix(string(tool.InputSchema), "{") || tool.RequiresUserApproval != strings.Contains(tool.Name, "approved") {
				t.Errorf("%v", tool)
			}
			names = append(names, tool.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(names) < 15 || !strings.Contains(strings.Join(names, " "), " echo ") {
		t.Errorf("%v", names)
	}
	if p, err := w.ListPrompts(t.Context(), &gatewayv1.ListPromptsRequest{}); err != nil || len(p.Prompts) != 1 || !strings.Contains(string(p.Prompts[0]), `"greet"`) {
		t.Errorf("%v %v", p, err)
	}
	if r, err := w.ListResources(t.Context(), &gatewayv1.ListResourcesRequest{}); err != nil || len(r.Resources) != 2 {
		t.Errorf("%v %v", r, err)
	}
	_, err := w.ListTools(t.Context(), &gatewayv1.ListToolsRequest{Cursor: "x"})
	refused(t, err, codes.InvalidArgument, "invalid_params", "no")
	_, err = w.ListTools(t.Context(), &gatewayv1.ListToolsRequest{Limit: 5000})
	refused(t, err, codes.InvalidArgument, "invalid_params", "no")
}

func TestCallTool(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("a result", func(t *testing.T) {
		t.Parallel()
		if _, r, err := w.call(t.Context(), "echo", `{"a":9007199254740993}`); err != nil || string(r.Content) != `[{"type":"text","text":"{\"a\":9007199254740993}"}]` || r.IsError {
			t.Errorf("%v %v", r, err)
		}
		if _, r, err := w.call(t.Context(), "fails", ""); err != nil || !r.IsError {
			t.Errorf("%v %v", r, err)
		}
		if _, r, err := w.call(t.Context(), "number", `{"n":2}`); err != nil || string(r.StructuredContent) != "2" {
			t.Errorf("%v %v", r, err)
		}
	})
	t.Run("progress and logs before it", func(t *testing.T) {
		t.Parallel()
		before, r, err := w.call(t.Context(), "progress", "")
		if err != nil || r == nil || len(before) != 4 || before[0].GetProgress().GetMessage() != "one\nline" || before[3].GetLog().GetLevel() != "error" {
			t.Errorf("%v %v %v", before, r, err)
		}
	})
	t.Run("a client that gives up", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-w.Svc.Started
			cancel()
		}()
		if _, _, err := w.call(ctx, "hold", ""); rpcstatus.Code(err) != codes.Canceled {
			t.Errorf("%v", err)
		}
		select {
		case <-w.Svc.Ended:
		case <-time.After(time.Minute):
			t.Error("the tool does not hear of it")
		}
	})
	for name, c := range map[string]struct {
		tool, arguments  string
		code             codes.Code
		reason, executed string
	}{
		"an unknown tool":             {"nope", "", codes.NotFound, "unknown_tool", "no"},
		"arguments of another type":   {"strict", `{"text":1}`, codes.InvalidArgument, "invalid_params", "no"},
		"arguments that are no JSON":  {"echo", `{`, codes.InvalidArgument, "parse_error", "no"},
		"a member twice":              {"echo", `{"a":1,"a":2}`, codes.InvalidArgument, "parse_error", "no"},
		"arguments that are no value": {"echo", `[]`, codes.InvalidArgument, "invalid_params", "no"},
		"a tool that asks":            {"ask", "", codes.FailedPrecondition, "input_required", "no"},
		"a defect":                    {"panics", "", codes.Internal, "internal", "unknown"},
		"a lost service":              {"lost-effect", "", codes.DeadlineExceeded, "peer_lost", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := w.call(t.Context(), c.tool, c.arguments)
			refused(t, err, c.code, c.reason, c.executed)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("a deadline", func(t *testing.T) {
		t.Parallel()
		_, _, err := w.call(t.Context(), "hurry", "")
		for range 5 { // on a busy machine the time of a call may end before it begins
			if !notBegun(err) {
				break
			}
			_, _, err = w.call(t.Context(), "hurry", "")
		}
		refused(t, err, codes.DeadlineExceeded, "deadline_exceeded", "unknown")
	})
	t.Run("two tokens", func(t *testing.T) {
		t.Parallel()
		_, _, err := w.call(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a", "authorization", "Bearer b"), "echo", "")
		refused(t, err, codes.InvalidArgument, "invalid_request", "no")
	})
}

func TestApprove(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, _, err := w.call(t.Context(), "approved", `{"a":1}`)
	facts := refused(t, err, codes.FailedPrecondition, "approval_required", "no").Metadata
	held := facts["approval"]
	if expires, err := time.Parse(time.RFC3339, facts["expires"]); err != nil || time.Until(expires) <= 0 {
		t.Errorf("%v", facts)
	}
	list, err := w.ListApprovals(t.Context(), &gatewayv1.ListApprovalsRequest{})
	if err != nil || len(list.Calls) != 1 || list.Calls[0].Approval != held || list.Calls[0].Arguments != nil {
		t.Fatalf("%v %v", list, err)
	}
	one, err := w.GetApproval(t.Context(), &gatewayv1.GetApprovalRequest{Approval: held})
	if c := one.GetCall(); err != nil || c.Name != "approved" || string(c.Arguments) != `{"a":1}` || time.Until(c.Expires.AsTime()) <= 0 {
		t.Fatalf("%v %v", one, err)
	}
	done, err := w.Approve(t.Context(), &gatewayv1.ApproveRequest{Approval: held, Approve: true})
	if err != nil || !strings.Contains(string(done.GetResult().GetContent()), "done") {
		t.Fatalf("%v %v", done, err)
	}
	_, err = w.Approve(t.Context(), &gatewayv1.ApproveRequest{Approval: held, Approve: true})
	refused(t, err, codes.NotFound, "unknown_approval", "unknown")
	_, err = w.GetApproval(t.Context(), &gatewayv1.GetApprovalRequest{Approval: held})
	refused(t, err, codes.NotFound, "unknown_approval", "unknown")
}

// A tool that asks is answered here in the same way as over plain HTTP.
func TestElicitation(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	asked := func() string {
		_, _, err := w.call(ctx, "color", `{}`)
		facts := refused(t, err, codes.FailedPrecondition, "input_required", "no").Metadata
		if !strings.Contains(facts["next"], "AnswerElicitation") || !strings.Contains(facts["requests"], "Which color?") {
			t.Errorf("%v", facts)
		}
		return facts["elicitation"]
	}
	id := asked()
	list, err := w.ListElicitations(ctx, &gatewayv1.ListElicitationsRequest{})
	if err != nil || len(list.Elicitations) != 1 || list.Elicitations[0].Elicitation != id || list.Elicitations[0].Requests != nil {
		t.Fatalf("%v %v", list, err)
	}
	one, err := w.GetElicitation(ctx, &gatewayv1.GetElicitationRequest{Elicitation: id, AsText: true})
	if e := one.GetElicitation(); err != nil || e.Name != "color" || !strings.Contains(e.RequestsText, "Which color?") || time.Until(e.Expires.AsTime()) <= 0 {
		t.Fatalf("%v %v", one, err)
	}
	answer := func(id, responses string) (*gatewayv1.AnswerElicitationResponse, error) {
		return last(w.AnswerElicitation(ctx, &gatewayv1.AnswerElicitationRequest{Elicitation: id, ResponsesText: responses}))
	}
	for responses, reason := range map[string]string{
		``: "invalid_request", `[]`: "invalid_params", `{"color":1,"color":2}`: "parse_error", `{}`: "invalid_params",
		`{"color":{"action":"accept","content":{"color":"mud"}}}`: "invalid_params",
	} {
		_, err := answer(id, responses)
		refused(t, err, codes.InvalidArgument, reason, "no")
	}
	_, err = w.Approve(ctx, &gatewayv1.ApproveRequest{Approval: id, Approve: true})
	refused(t, err, codes.NotFound, "unknown_approval", "no")
	const red = `{"color":{"action":"accept","content":{"color":"red"}}}`
	if done, err := answer(id, red); err != nil || !strings.Contains(string(done.GetResult().GetContent()), "accept red") {
		t.Fatalf("%v %v", done, err)
	}
	_, err = answer(id, red)
	refused(t, err, codes.NotFound, "unknown_elicitation", "unknown")
	_, err = w.GetElicitation(ctx, &gatewayv1.GetElicitationRequest{Elicitation: id})
	refused(t, err, codes.NotFound, "unknown_elicitation", "unknown")
}

func TestOthers(t *testing.T) {
	t.Parallel()
	w := start(t)
	if r, err := w.ReadResource(t.Context(), &gatewayv1.ReadResourceRequest{Uri: "note:///by/7"}); err != nil || !strings.Contains(string(r.Contents), `"it is 7"`) {
		t.Errorf("%v %v", r, err)
	}
	_, err := w.ReadResource(t.Context(), &gatewayv1.ReadResourceRequest{Uri: "nothing:///"})
	refused(t, err, codes.NotFound, "unknown_resource", "no")
	if p, err := w.GetPrompt(t.Context(), &gatewayv1.GetPromptRequest{Name: "greet", Arguments: []byte(`{"who":"Ada"}`)}); err != nil || !strings.Contains(string(p.Messages), "Hello Ada") {
		t.Errorf("%v %v", p, err)
	}
	if h, err := healthv1.NewHealthClient(w.conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || h.Status != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v %v", h, err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	const uri = "note:///one"
	stream, err := w.Watch(t.Context(), &gatewayv1.WatchRequest{Prompts: true, Uris: []string{uri}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.Tools || m.Prompts || m.Resources || m.Uris != nil {
		t.Fatalf("%v %v", m, err)
	}
	w.Svc.RemoveTool("safe") // not watched
	w.Svc.ResourceUpdated(uri)
	if m, err := stream.Recv(); err != nil || m.Tools || m.Prompts || len(m.Uris) != 1 || m.Uris[0] != uri {
		t.Errorf("%v %v", m, err)
	}
}
