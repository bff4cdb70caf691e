package probe

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Count adds one, with the trace of ctx as an exemplar if it is recorded.
func Count(ctx context.Context, c prometheus.Counter) {
	if e := example(ctx); e != nil {
		c.(prometheus.ExemplarAdder).AddWithExemplar(1, e)
		return
	}
	c.Inc()
}

// Observe adds a value to a histogram, with an exemplar like Count.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	if e := example(ctx); e != nil {
		o.(prometheus.ExemplarObserver).ObserveWithExemplar(value, e)
		return
	}
	o.Observe(value)
}

// example returns nil if there is no trace or it is not recorded.
func example(ctx context.Context) prometheus.Labels {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() && !sc.IsRemote() {
		return prometheus.Labels{"trace_id": sc.TraceID().String()}
	}
	return nil
}
