package probe

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Count counts one, with the trace of ctx as an example if that is being recorded.
func Count(ctx context.Context, c prometheus.Counter) {
	if e := example(ctx); e != nil {
		c.(prometheus.ExemplarAdder).AddWithExemplar(1, e)
		return
	}
	c.Inc()
}

// Observe adds a value to a histogram, with an example as Count has.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	if e := example(ctx); e != nil {
		o.(prometheus.ExemplarObserver).ObserveWithExemplar(value, e)
		return
	}
	o.Observe(value)
}

// example is nil for no trace, or one that nobody records.
func example(ctx context.Context) prometheus.Labels {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() && !sc.IsRemote() {
		return prometheus.Labels{"trace_id": sc.TraceID().String()}
	}
	return nil
}
