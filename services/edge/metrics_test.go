package edge_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	e, _ := start(t).join(t)
	h := e.Handler(door.Guard{Loopback: true})
	for _, c := range []struct{ tool, arguments string }{
		{"echo", `{"canary":"c4n4ry"}`}, {"echo", `{}`}, {"fails", `{}`}, {"c4n4ry", `{}`},
		{"shared", `{}`}, {"shared", `{}`}, {"shared", `{}`},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/tools/"+c.tool, strings.NewReader(c.arguments))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	status, figures := get(t, h, "http://127.0.0.1/metrics")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, figures)
	}
	for _, want := range []string{
		`busbar_calls_total{door="rest",method="tools/call",outcome="ok",service="svc",tool="echo"} 2`,
		`busbar_calls_total{door="rest",method="tools/call",outcome="tool_error",service="svc",tool="fails"} 1`,
		`busbar_calls_total{door="rest",method="tools/call",outcome="unknown_tool",service="",tool=""} 1`,
		`busbar_call_duration_seconds_count{method="tools/call",service="svc"} 6`,
		`busbar_cache_hits_total 2`, `busbar_cache_misses_total 1`, `busbar_calls_in_flight 0`,
		`busbar_bus_connected 1`, `busbar_services 1`, `busbar_audit_dropped_events_total 0`, `go_goroutines `,
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(figures, "c4n4ry") {
		t.Error("what a client wrote is among the metrics")
	}
	for name, c := range map[string]struct {
		guard door.Guard
		url   string
		want  int
	}{
		"another host name":  {door.Guard{Loopback: true}, "http://evil.example/metrics", http.StatusForbidden},
		"a public listener":  {door.Guard{}, "http://127.0.0.1/metrics", http.StatusNotFound},
		"a host that is let": {door.Guard{Hosts: []string{"mcp.example"}}, "http://mcp.example/metrics", http.StatusNotFound},
	} {
		if status, body := get(t, e.Handler(c.guard), c.url); status != c.want {
			t.Errorf("%s: %d %.100s", name, status, body)
		}
	}
}

// A listener of their own shows the figures and nothing else.
func TestMetricsListen(t *testing.T) {
	t.Parallel()
	e, _ := start(t).join(t)
	l, err := edge.ListenFlags{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0"}.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.ServeAll(ctx, l) }()
	_, url, _ := strings.Cut(l.String(), " metrics=")
	for path, want := range map[string]int{"": http.StatusOK, "/x": http.StatusNotFound, "/../tools": http.StatusNotFound} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == http.StatusOK && !strings.Contains(string(body), `busbar_edge_info{version="`) {
			t.Errorf("%s: %d %.200s", path, resp.StatusCode, body)
		}
	}
	stop()
	if err := receive(t, "the end", done); err != nil {
		t.Error(err)
	}
	if _, err := (edge.ListenFlags{Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:99999"}).Open(false); err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Errorf("%v", err)
	}
}
