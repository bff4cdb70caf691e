// Package otlp sends spans to an OpenTelemetry collector, if the standard environment
// variables name one: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. The
// other variables of the exporter, the batches, the sampler and the resource apply, too.
// Start at Open.
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/tracing"
)

// Traces sends the spans of this process. A nil Traces sends nothing, and returns nil
// tracers.
type Traces struct {
	batches sdk.SpanProcessor
	version string
	root    sdk.Sampler
}

// Open reads the environment. It returns nil if that names no collector. It does not wait for
// a collector: spans that cannot be sent are dropped.
func Open(ctx context.Context, version string) (*Traces, error) {
	if off() {
		return nil, nil
	}
	const name = "OTEL_EXPORTER_OTLP_PROTOCOL"
	if p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv(name)); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("%s is %q, but only http/protobuf is supported; set that, and port 4318 for most collectors", name, p)
	}
	root, err := rootSampler()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	// The SDK has one handler for the process, and calls it at most once for each batch.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces could not be sent", "error", err) }))
	return &Traces{batches: sdk.NewBatchSpanProcessor(exporter), version: version, root: root}, nil
}

// off reports whether the environment asks for no traces.
func off() bool {
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" ||
		exporter != "" && exporter != "otlp" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
}

// closeTime is how long an ending process waits for the collector.
const closeTime = 3 * time.Second

// Close sends the remaining spans.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := t.batches.Shutdown(ctx); err != nil {
		slog.Warn("the last traces could not be sent", "error", err)
	}
}

// Service returns the tracer of a service. It records what its callers record, and starts no
// trace.
func (t *Traces) Service(name string) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer(name, sdk.ParentBased(sdk.NeverSample()))
}

// Edge returns the tracer of an edge, where traces begin. Each second it records at most
// perSecond traces of the edge's own choice, and as many that clients ask for.
func (t *Traces) Edge(perSecond int) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer("edge", newBounded(t.root, perSecond))
}

func (t *Traces) tracer(service string, s sdk.Sampler) trace.Tracer {
	// A detector fails because of a mistake in the environment; the rest can be used.
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceNamespace("busbar"), semconv.ServiceName(service), semconv.ServiceVersion(t.version)), resource.WithFromEnv())
	if err != nil {
		slog.Warn("some attributes of traces are not valid", "error", err)
	}
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(t.batches), sdk.WithResource(r), sdk.WithSampler(s)).Tracer(tracing.Scope)
}
