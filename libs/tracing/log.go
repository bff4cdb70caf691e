package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Log is a handler of log records that adds trace_id and span_id where the context of a
// record has them.
func Log(next slog.Handler) slog.Handler { return log{next} }

type log struct{ slog.Handler }

// Handle implements slog.Handler.
func (l log) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l log) WithAttrs(attrs []slog.Attr) slog.Handler { return log{l.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (l log) WithGroup(name string) slog.Handler { return log{l.Handler.WithGroup(name)} }
