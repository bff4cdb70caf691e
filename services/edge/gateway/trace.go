package gateway

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/tracing"
)

// traced carries out a call in a span of its door, which begins when the door had the whole
// request, and in a span of the chain inside that. Their attributes follow OpenTelemetry's
// conventions for MCP, without texts of the client: no arguments, no URIs, no ids.
func (g *Gateway) traced(ctx context.Context, r *run) (*Answer, error) {
	ctx, span := g.cfg.Tracer.Start(ctx, r.MethodName(), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Received), trace.WithAttributes(tracing.Door.String(r.Door)))
	defer span.End()
	if !span.IsRecording() {
		return g.chain(ctx, r)
	}
	inner, chain := tracing.Within(ctx, "chain", trace.SpanKindInternal)
	answer, err := g.chain(inner, r)
	tracing.End(chain, err)
	r.describe(span)
	switch {
	case err != nil:
		tracing.Failed(span, err)
	case answer.Result != nil && answer.Result.IsError:
		span.SetAttributes(tracing.ToolError)
	}
	return answer, err
}

// describe adds to the span what the chain found out about the call.
func (r *run) describe(span trace.Span) {
	attributes := append(transports[r.Door], semconv.McpMethodNameKey.String(r.MethodName()), attribute.String("busbar.call", r.ID))
	if r.Protocol != "" {
		attributes = append(attributes, semconv.McpProtocolVersion(r.Protocol))
	}
	if r.Target.Service != "" {
		attributes = append(attributes, attribute.String("busbar.service", r.Target.Service))
	}
	if r.Target.Tool != nil {
		attributes = append(attributes, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(r.Name))
		span.SetName(r.Method + " " + r.Name)
	}
	span.SetAttributes(attributes...)
}

// MethodName is the method of a call, unless a client made it up.
func (v *View) MethodName() string {
	if v.Target.Service == "" && !mcp.IsMethod(v.Method) && v.Method != mcp.MethodSample {
		return "other"
	}
	return v.Method
}

// transports are the attributes of calls by their door.
var transports = func() map[string][]attribute.KeyValue {
	all := map[string][]attribute.KeyValue{"stdio": {semconv.NetworkTransportPipe}, "service": {semconv.NetworkTransportTCP, semconv.NetworkProtocolName("nats")}}
	for _, door := range []string{"streamable", "sse", "websocket", "rest", "graphql", "envelope", "grpc"} {
		all[door] = []attribute.KeyValue{semconv.NetworkTransportTCP, semconv.NetworkProtocolName("http")}
	}
	for door, known := range all {
		all[door] = known[:len(known):len(known)] // appended to by every call
	}
	return all
}()
