// Package tracing connects calls to OpenTelemetry: the context that travels with a call by W3C Trace
// Context, and spans within a recorded trace. It sends nothing and decides nothing; package otlp does. If
// nothing is recorded, it costs one look into a context. Start at Within.
package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Scope is the instrumentation scope of our spans.
const Scope = "github.com/busbar-mcp/busbar"

// Door is the attribute that names the door of a call. OfService is its value for calls made
// by services; the edge itself decides whether these are recorded.
const Door = attribute.Key("busbar.door")

// OfService: see Door.
var OfService = Door.String("service")

// ToolError is the error.type of a call whose tool reported the failure itself.
var ToolError = attribute.String("error.type", "tool_error")

// MaxState is the largest tracestate, in bytes: W3C Trace Context requires everybody to carry that much.
const MaxState = 512

var format propagation.TraceContext

// Remote returns ctx below the span named by a traceparent and a tracestate, or ctx if they
// name none.
func Remote(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	if len(state) > MaxState {
		state = "" // it would travel with every message of the call
	}
	return format.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// Header returns the traceparent and the tracestate of the span of ctx; empty if it has
// none.
func Header(ctx context.Context) (parent, state string) {
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Within begins a child of the span of ctx; nil if that is not recorded. Call End on it.
func Within(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
}

// End ends a span with its outcome. A nil span records nothing.
func End(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		Failed(span, err)
	}
	span.End()
}

// Failed marks a span as failed, with the reason that clients receive. It never uses the
// error's text, which may contain a client's data.
func Failed(span trace.Span, err error) {
	var f *fault.Error
	if !errors.As(err, &f) {
		f = fault.New(fault.Internal, "")
	}
	span.SetAttributes(attribute.String("error.type", string(f.Reason)))
	if f.Executed != "" {
		span.SetAttributes(attribute.String("busbar.executed", string(f.Executed)))
	}
	span.SetStatus(codes.Error, string(f.Reason))
}
