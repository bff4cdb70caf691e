package edge

import (
	"context"

	"github.com/busbar-mcp/busbar/libs/lifecycle"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
)

// TraceFlags say how many calls are traced. The tags are read by kong.
type TraceFlags struct {
	TracesPerSecond int `default:"100" env:"BUSBAR_TRACES_PER_SECOND" placeholder:"N" help:"Limit of new traces per second (default ${default}). Clients that ask for traces get as many again. OTEL_EXPORTER_OTLP_* say where they go."`
}

// OpenTraces makes an edge trace its calls, if the environment names a collector. Close
// the result, which may be nil, when the edge is closed.
func (f TraceFlags) OpenTraces(ctx context.Context, cfg *Config) (*otlp.Traces, error) {
	t, err := otlp.Open(ctx, lifecycle.Version())
	if err == nil {
		cfg.Tracer = t.Edge(max(0, f.TracesPerSecond))
	}
	return t, err
}
