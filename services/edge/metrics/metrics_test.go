package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/metrics"
)

// Services and tools that come and go, and methods that clients invent, do not make an
// unlimited number of series.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	m := metrics.New("1", func() []probe.Check { return nil })
	auditor := m.Auditor(nil)
	record := func(method, service, tool string) {
		r := gateway.Record{Outcome: "ok"}
		r.Call = &gateway.Call{Door: "rest", Method: method, Name: tool}
		r.Target = catalogue.Target{Service: service}
		if service != "" {
			r.Target.Tool = &catalogue.Tool{Title: tool}
		}
		if err := auditor.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	record(mcp.MethodToolsCall, "text", "tokenize")
	for i := range 6000 {
		record(mcp.MethodToolsCall, fmt.Sprint("service-", i), fmt.Sprint("tool-", i))
		record(mcp.MethodToolsCall, fmt.Sprint("service-", i%500), fmt.Sprint("tool-", i%2000))
		record(fmt.Sprint("made/up-", i), "", "")
	}
	record(mcp.MethodToolsCall, "text", "tokenize") // the first ones keep their own
	out := httptest.NewRecorder()
	m.Metrics().ServeHTTP(out, httptest.NewRequest("GET", "/metrics", nil))
	figures := out.Body.String()
	if n := strings.Count(figures, "busbar_calls_total{"); n > 2048+256+3 {
		t.Errorf("%d series", n)
	}
	if n := strings.Count(figures, "busbar_call_duration_seconds_count{"); n > 256+256+3 {
		t.Errorf("%d histograms", n)
	}
	for _, want := range []string{
		`outcome="ok",service="text",tool="tokenize"} 2`, `service="other",tool="other"}`, `method="other",outcome="ok",service="",tool=""} 6000`,
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("no %s", want)
		}
	}
}
