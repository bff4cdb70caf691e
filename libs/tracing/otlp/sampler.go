package otlp

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/busbar-mcp/busbar/libs/tracing"
)

// rootSampler returns the sampler for traces that no caller has decided on. A caller's
// decision is always respected, so the prefix parentbased_ changes
// nothing.
func rootSampler() (sdk.Sampler, error) {
	name, argument := os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG")
	switch strings.TrimPrefix(name, "parentbased_") {
	case "", "always_on":
		return sdk.AlwaysSample(), nil
	case "always_off":
		return sdk.NeverSample(), nil
	case "traceidratio":
		ratio := 1.0
		if argument != "" {
			var err error
			if ratio, err = strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q; set a ratio from 0 to 1", argument)
			}
		}
		return sdk.TraceIDRatioBased(ratio), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q; set always_on, always_off or traceidratio, or one of these after parentbased_", name)
}

// bounded decides where traces begin. Clients are not trusted: one that asks for a trace of
// each call gets only as many as the edge allows, and the edge's own choices have a limit of
// their own.
type bounded struct {
	root       sdk.Sampler
	own, asked *rate.Limiter
}

func newBounded(root sdk.Sampler, perSecond int) sdk.Sampler {
	room := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }
	return bounded{root, room(), room()}
}

// ShouldSample implements sdk.Sampler.
func (b bounded) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	var keep bool
	switch {
	case !parent.IsValid():
		keep = b.root.ShouldSample(p).Decision == sdk.RecordAndSample && b.own.Allow()
	case !parent.IsRemote(), slices.Contains(p.Attributes, tracing.OfService):
		keep = parent.IsSampled() // decided by the parent
	default:
		keep = parent.IsSampled() && b.asked.Allow()
	}
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	if keep {
		result.Decision = sdk.RecordAndSample
	}
	return result
}

// Description implements sdk.Sampler.
func (b bounded) Description() string { return "Bounded{" + b.root.Description() + "}" }
