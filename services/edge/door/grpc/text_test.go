package grpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
)

// Every JSON field of the contract has a field for text.
func TestEveryFieldHasText(t *testing.T) {
	t.Parallel()
	messages := gatewayv1.File_busbar_gateway_v1_gateway_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			if f.Kind() != protoreflect.BytesKind {
				continue
			}
			if text := fields.ByName(f.Name() + "_text"); text == nil || text.Kind() != protoreflect.StringKind || text.Cardinality() != f.Cardinality() {
				t.Errorf("%s has no %s_text like it", f.FullName(), f.Name())
			}
		}
	}
}

// texts moves an answer's JSON to its fields of text, and returns how many there are.
func texts(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		text := m.Descriptor().Fields().ByName(f.Name() + "_text")
		switch {
		case f.Kind() == protoreflect.BytesKind && f.IsList():
			for i := range v.List().Len() {
				m.Mutable(text).List().Append(protoreflect.ValueOfString(string(v.List().Get(i).Bytes())))
				n++
			}
			m.Clear(f)
		case f.Kind() == protoreflect.BytesKind:
			m.Set(text, protoreflect.ValueOfString(string(v.Bytes())))
			m.Clear(f)
			n++
		case f.Message() != nil && f.IsList():
			for i := range v.List().Len() {
				n += texts(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			n += texts(v.Message())
		}
		return true
	})
	return n
}

// Answers in text have the same content as those in bytes.
func TestText(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	held := func() string {
		_, _, err := w.call(ctx, "approved", `{"a":1}`)
		return refused(t, err, codes.FailedPrecondition, "approval_required", "no").Metadata["approval"]
	}
	first := held()
	for name, ask := range map[string]func(asText bool) (proto.Message, error){
		"tools": func(as bool) (proto.Message, error) { return w.ListTools(ctx, &gatewayv1.ListToolsRequest{AsText: as}) },
		"prompts": func(as bool) (proto.Message, error) {
			return w.ListPrompts(ctx, &gatewayv1.ListPromptsRequest{AsText: as})
		},
		"resources": func(as bool) (proto.Message, error) {
			return w.ListResources(ctx, &gatewayv1.ListResourcesRequest{AsText: as})
		},
		"a resource": func(as bool) (proto.Message, error) {
			return w.ReadResource(ctx, &gatewayv1.ReadResourceRequest{Uri: "note:///by/7", AsText: as})
		},
		"a prompt": func(as bool) (proto.Message, error) {
			return w.GetPrompt(ctx, &gatewayv1.GetPromptRequest{Name: "greet", ArgumentsText: `{"who":"Ada"}`, AsText: as})
		},
		"a held call": func(as bool) (proto.Message, error) {
			return w.GetApproval(ctx, &gatewayv1.GetApprovalRequest{Approval: first, AsText: as})
		},
		"an approved call": func(as bool) (proto.Message, error) {
			return w.Approve(ctx, &gatewayv1.ApproveRequest{Approval: held(), Approve: true, AsText: as})
		},
		"a call": func(as bool) (proto.Message, error) {
			return last(w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "number", ArgumentsText: `{"n":2}`, AsText: as}))
		},
		"a log message": func(as bool) (proto.Message, error) {
			stream, err := w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "progress", AsText: as})
			for err == nil {
				var m *gatewayv1.CallToolResponse
				if m, err = stream.Recv(); err == nil && m.GetLog() != nil {
					return m, nil
				}
			}
			return nil, err
		},
		"a call of a batch": func(as bool) (proto.Message, error) {
			return w.batch(ctx, &gatewayv1.BatchToolsRequest{Name: "echo", ArgumentsText: `{"a":9007199254740993}`, AsText: as})
		},
		"a failure in a batch": func(as bool) (proto.Message, error) {
			return w.batch(ctx, &gatewayv1.BatchToolsRequest{Name: "strict", ArgumentsText: `{"text":1}`, AsText: as})
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := ask(false)
			if err != nil {
				t.Fatal(err)
			}
			text, err := ask(true)
			if err != nil {
				t.Fatal(err)
			}
			if texts(plain.ProtoReflect()) == 0 {
				t.Errorf("no JSON in %v", plain)
			}
			if !proto.Equal(plain, text) {
				t.Errorf("got  %v\nwant %v", text, plain)
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		stream, err := w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "echo", Arguments: []byte(`{}`), ArgumentsText: `{}`})
		if err == nil {
			_, err = stream.Recv()
		}
		refused(t, err, codes.InvalidArgument, "invalid_params", "no")
		m, err := w.batch(ctx, &gatewayv1.BatchToolsRequest{Name: "echo", Arguments: []byte(`{}`), ArgumentsText: `{}`})
		if err != nil || m.(*gatewayv1.BatchToolsResponse).GetFailure().GetReason() != "invalid_params" {
			t.Errorf("in a batch: %v %v", m, err)
		}
	})
	t.Run("no object", func(t *testing.T) {
		for _, arguments := range []string{`[1]`, `{"a":1,"a":2}`, `{`, "\"x\""} {
			stream, err := w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "echo", ArgumentsText: arguments})
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil || !strings.Contains(err.Error(), "InvalidArgument") {
				t.Errorf("%s: %v", arguments, err)
			}
		}
	})
}

// last is the last message of a stream.
func last[M any](stream interface{ Recv() (M, error) }, err error) (got M, _ error) {
	for err == nil {
		var m M
		if m, err = stream.Recv(); err == nil {
			got = m
		}
	}
	if !errors.Is(err, io.EOF) {
		return got, err
	}
	return got, nil
}

// batch is the outcome of a batch of one call.
func (w *world) batch(ctx context.Context, r *gatewayv1.BatchToolsRequest) (proto.Message, error) {
	stream, err := w.BatchTools(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(r); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	return stream.Recv()
}
