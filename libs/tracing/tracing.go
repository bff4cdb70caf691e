// Package tracing is what programs say to OpenTelemetry of a call: the context that W3C
// Trace Context has travel with it, and spans within one that is being recorded. It sends
// nothing and decides nothing; package otlp does. Where nothing is recorded, it costs a
// look into a context.
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

// Door is the attribute that names the door of a call, OfService its value for calls that
// services make, whose word on what is recorded is the edge's own.
const Door = attribute.Key("busbar.door")

// OfService: see Door.
var OfService = Door.String("service")

// ToolError is error.type of a call whose tool says itself that it failed.
var ToolError = attribute.String("error.type", "tool_error")

// MaxState bounds a tracestate, in bytes: what W3C Trace Context asks everybody to carry.
const MaxState = 512

var format propagation.TraceContext

// Remote is ctx below the span that a traceparent and a tracestate name, or ctx where
// they name none.
func Remote(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	if len(state) > MaxState {
		state = "" // it would travel with everything that the call does
	}
	return format.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// Header is the traceparent and the tracestate that name the span of ctx; empty where it
// has none.
func Header(ctx context.Context) (parent, state string) {
	carrier := propagation.MapCarrier{}
	format.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// Within begins a span within that of ctx; nil if none is being recorded there. End it.
func Within(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
}

// End ends a span, with what it came to. A nil span records nothing.
func End(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		Failed(span, err)
	}
	span.End()
}

// Failed says on a span that its operation failed: with the reason that clients are told,
// never with the error's text, which may have what a client wrote.
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
