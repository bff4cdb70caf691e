package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/tracing"
)

const parent, id, span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

var errFailed error = fault.New(fault.Internal, "it failed")

// A call that is not recorded allocates nothing.
func TestNothingIsAllocated(t *testing.T) {
	ctx := context.WithValue(t.Context(), t, "as deep as a call's")
	for what, f := range map[string]func(){
		"a span within":       func() { _, s := tracing.Within(ctx, "name", trace.SpanKindClient); tracing.End(s, errFailed) },
		"what a client sends": func() { _ = tracing.Remote(ctx, "", "") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	ctx := tracing.Remote(t.Context(), parent, "a=b")
	if sc := trace.SpanContextFromContext(ctx); sc.TraceID().String() != id || !sc.IsRemote() || !sc.IsSampled() {
		t.Errorf("%+v", sc)
	}
	if p, s := tracing.Header(ctx); p != parent || s != "a=b" {
		t.Errorf("%s %s", p, s)
	}
	for _, bad := range []string{"", "00-1", "ff" + parent[2:], parent + "-x", strings.ToUpper(parent), strings.Repeat("0", 1<<20)} {
		if ctx := tracing.Remote(t.Context(), bad, ""); trace.SpanContextFromContext(ctx).IsValid() {
			t.Errorf("%.100q is a traceparent", bad)
		}
	}
	long := "a=" + strings.Repeat("b", 250)
	for i := range 20 {
		long += fmt.Sprintf(",a%d=%s", i, strings.Repeat("b", 250))
	}
	if p, s := tracing.Header(tracing.Remote(t.Context(), parent, long)); p != parent || s != "" {
		t.Errorf("of %d bytes of a client %d travel on", len(long), len(s))
	}
	if p, s := tracing.Header(t.Context()); p+s != "" {
		t.Errorf("%q %q", p, s)
	}
}

func FuzzRemote(f *testing.F) {
	f.Add(parent, "a=b,c@d=e")
	f.Fuzz(func(t *testing.T, parent, state string) {
		ctx := tracing.Remote(t.Context(), parent, state)
		p, s := tracing.Header(ctx)
		if valid := trace.SpanContextFromContext(ctx).IsValid(); valid != (p != "") || len(s) > tracing.MaxState {
			t.Errorf("%q %q: %q %q", parent, state, p, s)
		}
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(tracing.Log(slog.NewJSONHandler(&out, nil))).With("a", 1).WithGroup("g")
	log.Info("without")
	if strings.Contains(out.String(), "trace_id") {
		t.Error(out.String())
	}
	log.InfoContext(tracing.Remote(t.Context(), parent, ""), "with", "b", 2)
	if !strings.Contains(out.String(), `"trace_id":"`+id+`","span_id":"`+span+`"`) {
		t.Error(out.String())
	}
}
