package tracing

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// Log returns a log handler that adds trace_id and span_id from the context of a
// record.
func Log(next slog.Handler) slog.Handler { return log{Handler: next} }

const traceID = "trace_id"

// log omits trace_id if the logger already has it.
type log struct {
	slog.Handler
	has bool
}

// Handle implements slog.Handler.
func (l log) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		if !l.has {
			r.AddAttrs(slog.String(traceID, sc.TraceID().String()))
		}
		r.AddAttrs(slog.String("span_id", sc.SpanID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l log) WithAttrs(attrs []slog.Attr) slog.Handler {
	return log{l.Handler.WithAttrs(attrs), l.has || slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == traceID })}
}

// WithGroup implements slog.Handler.
func (l log) WithGroup(name string) slog.Handler { return log{l.Handler.WithGroup(name), l.has} }
