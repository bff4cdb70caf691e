package bus

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/tracing"
)

// Attributes of spans. None contains text from a client.
const (
	attrService  = attribute.Key("busbar.service")
	attrInstance = attribute.Key("busbar.instance")
	attrAttempts = attribute.Key("busbar.attempts")
	attrWaited   = attribute.Key("busbar.waited_seconds")
)

var overNATS = semconv.MessagingSystemKey.String("nats")

// sent begins the span of an outgoing call if its context is recorded. It names that span in the
// request, or otherwise the span of the context, for the instance that runs the call.
func sent(ctx context.Context, service string, req *busv1.Request) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil // the request may already name a span
	}
	ctx, span := tracing.Within(ctx, "bus "+service, trace.SpanKindClient)
	if span != nil {
		span.SetAttributes(overNATS, attrService.String(service), semconv.MessagingDestinationName(subject.Call(service, req.Method)))
	}
	req.Traceparent, req.Tracestate = tracing.Header(ctx)
	return ctx, span
}

// answered ends the span of an outgoing call.
func answered(span trace.Span, ran *Ran, attempts int, err error) {
	if span == nil {
		return
	}
	span.SetAttributes(attrAttempts.Int(attempts))
	if ran != nil && ran.Instance != "" {
		span.SetAttributes(attrInstance.String(ran.Instance), semconv.ServiceVersion(ran.Version))
	}
	tracing.End(span, err)
}

// received begins the span of a call that runs here, if its caller records it. The handler's
// context has the caller's span in any case. Calls of services to edges get their span at the
// edge's door.
func (s *Server) received(ctx context.Context, req *busv1.Request, at time.Time) (context.Context, trace.Span) {
	ctx = tracing.Remote(ctx, req.Traceparent, req.Tracestate)
	if s.conn.tracer == nil || s.cfg.Service == Gateway || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	name := req.Method
	attributes := []attribute.KeyValue{overNATS, attrService.String(s.cfg.Service), attrInstance.String(s.instance), semconv.McpMethodNameKey.String(req.Method)}
	if req.Method == mcp.MethodToolsCall {
		name += " " + fault.Clip(req.Name)
		attributes = append(attributes, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(fault.Clip(req.Name)))
	}
	return s.conn.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(at), trace.WithAttributes(attributes...))
}

// ended records the outcome of a call on its span.
func ended(ctx context.Context, body proto.Message, f *fault.Error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if f != nil {
		tracing.Failed(span, f)
	} else if r, ok := body.(*busv1.Result); ok && r.IsError {
		span.SetAttributes(tracing.ToolError)
	}
}
