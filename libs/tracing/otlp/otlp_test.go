package otlp_test

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/tracing"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp/otlptest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Not parallel, as all tests here: the environment belongs to the whole process.
func TestOff(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing":     {},
		"a header":    {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
		"no exporter": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
		"no SDK":      {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range env {
				t.Setenv(k, v)
			}
			traces, err := otlp.Open(t.Context(), "1")
			if traces != nil || err != nil || traces.Service("a") != nil || traces.Edge(1) != nil {
				t.Errorf("%v %v", traces, err)
			}
			traces.Close()
		})
	}
}

func TestWrongSettings(t *testing.T) {
	for says, env := range map[string]map[string]string{
		"http/protobuf":          {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"OTEL_TRACES_SAMPLER is": {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
		"a ratio from 0 to 1":    {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
		"a ratio from 0 to 1 ":   {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			for k, v := range env {
				t.Setenv(k, v)
			}
			if traces, err := otlp.Open(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(says)) {
				traces.Close()
				t.Errorf("%v", err)
			}
		})
	}
}

// Clients that ask for a trace of every call get as many as the limit allows, and do not use up the
// limit of the edge's own traces.
func TestBounds(t *testing.T) {
	const perSecond, calls = 5, 1000
	for name, c := range map[string]struct {
		sampler, argument string
		parent            string
		service           bool
		least, most       int
	}{
		"a client asks":           {parent: "01", least: perSecond, most: 4 * perSecond},
		"a client asks for none":  {parent: "00"},
		"the edge's own":          {least: perSecond, most: 4 * perSecond},
		"the edge wants none":     {sampler: "always_off"},
		"none, but a client asks": {sampler: "parentbased_always_off", parent: "01", least: perSecond, most: 4 * perSecond},
		"a ratio of none":         {sampler: "traceidratio", argument: "0"},
		"a service asks":          {parent: "01", service: true, least: calls, most: calls},
		"a service asks for none": {parent: "00", service: true},
	} {
		t.Run(name, func(t *testing.T) {
			collector := otlptest.Start(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.argument)
			traces, err := otlp.Open(t.Context(), "1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			tracer := traces.Edge(perSecond)
			door := tracing.Door.String("rest")
			if c.service {
				door = tracing.OfService
			}
			ctx, recorded := t.Context(), 0
			if c.parent != "" {
				ctx = tracing.Remote(ctx, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"+c.parent, "")
			}
			begun := time.Now()
			for range calls {
				inner, span := tracer.Start(ctx, "call", trace.WithAttributes(door))
				if span.IsRecording() {
					recorded++
				}
				if _, within := tracing.Within(inner, "within", trace.SpanKindInternal); (within != nil) != span.IsRecording() {
					t.Error("part of a trace is recorded")
				} else if within != nil {
					within.End()
				}
				span.End()
			}
			most := c.most
			if most > 0 { // there is room for more each second
				most += int(perSecond * time.Since(begun).Seconds())
			}
			if recorded < c.least || recorded > most {
				t.Errorf("%d of %d are recorded, want %d to %d", recorded, calls, c.least, most)
			}
			traces.Close()
			if n := len(collector.Spans()); n != 2*recorded {
				t.Errorf("%d spans came of %d", n, 2*recorded)
			}
		})
	}
}

// A service begins no trace, and records a call if its caller does.
func TestService(t *testing.T) {
	collector := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	traces, err := otlp.Open(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	tracer := traces.Service("text")
	_, span := tracer.Start(t.Context(), "alone")
	span.End()
	_, span = tracer.Start(tracing.Remote(t.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""), "called")
	span.End()
	traces.Close()
	if all := collector.Spans(); len(all) != 1 || all[0].Name != "called" || all[0].Service != "text" || all[0].Parent != "b7ad6b7169203331" || !collector.Holds("deployment.environment.name") {
		t.Errorf("%+v", all)
	}
}

// If the collector is away, spans are lost, but no calls are delayed and memory stays limited.
func TestAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	traces, err := otlp.Open(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	tracer := traces.Edge(1_000_000)
	begun := time.Now()
	for range 10_000 {
		_, span := tracer.Start(t.Context(), "call")
		span.End()
	}
	traces.Close()
	if took := time.Since(begun); took > bustest.Promptly {
		t.Errorf("%v", took)
	}
}

// The spans follow the named version of the conventions.
func TestConventions(t *testing.T) {
	for ours, theirs := range map[string]mcpconv.MethodNameAttr{
		mcp.MethodToolsCall: mcpconv.MethodNameToolsCall, mcp.MethodResourcesRead: mcpconv.MethodNameResourcesRead, mcp.MethodPromptsGet: mcpconv.MethodNamePromptsGet,
	} {
		if ours != string(theirs) {
			t.Errorf("%s is %s", ours, theirs)
		}
	}
	if mcpconv.GenAIOperationNameExecuteTool != "execute_tool" {
		t.Error(mcpconv.GenAIOperationNameExecuteTool)
	}
}
