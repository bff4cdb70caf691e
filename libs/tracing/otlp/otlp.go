// Package otlp sends spans to an OpenTelemetry collector, where the standard variables of
// the environment say that there is one: OTEL_EXPORTER_OTLP_ENDPOINT, or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and the others of the exporter, the batches, the
// sampler and the resource.
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

// Traces is where the spans of this process go. A nil one is nowhere, and makes tracers
// that are nil.
type Traces struct {
	batches sdk.SpanProcessor
	version string
	root    sdk.Sampler
}

// Open reads the environment. It returns nil where that names no collector; it waits for
// none, and never for one that is away: spans that cannot be sent are dropped.
func Open(ctx context.Context, version string) (*Traces, error) {
	if off() {
		return nil, nil
	}
	const name = "OTEL_EXPORTER_OTLP_PROTOCOL"
	if p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv(name)); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("%s is %q: traces are sent as http/protobuf, to port 4318 of most collectors", name, p)
	}
	root, err := rootSampler()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	// The SDK has one handler for the process, and calls it at most once a batch.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces are not sent", "error", err) }))
	return &Traces{batches: sdk.NewBatchSpanProcessor(exporter), version: version, root: root}, nil
}

// off reports whether the environment asks for no traces.
func off() bool {
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" ||
		exporter != "" && exporter != "otlp" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
}

// closeTime bounds the wait for a collector when a process ends.
const closeTime = 3 * time.Second

// Close sends what has not been sent yet.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := t.batches.Shutdown(ctx); err != nil {
		slog.Warn("the last traces are not sent", "error", err)
	}
}

// Service makes the tracer of a service: it records what its callers record, and begins
// no trace.
func (t *Traces) Service(name string) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer(name, sdk.ParentBased(sdk.NeverSample()))
}

// Edge makes the tracer of an edge, where traces begin: at most so many a second that the
// edge decides to record, and as many again of those that clients ask for.
func (t *Traces) Edge(perSecond int) trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer("edge", newBounded(t.root, perSecond))
}

func (t *Traces) tracer(service string, s sdk.Sampler) trace.Tracer {
	// Detectors of the environment fail for what it has wrong; the rest is good.
	r, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceNamespace("busbar"), semconv.ServiceName(service), semconv.ServiceVersion(t.version)), resource.WithFromEnv())
	if err != nil {
		slog.Warn("attributes of traces", "error", err)
	}
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(t.batches), sdk.WithResource(r), sdk.WithSampler(s)).Tracer(tracing.Scope)
}
