package edge_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
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
	figures := figuresOf(t, e)
	for _, want := range []string{
		`busbar_calls_total{door="rest",method="tools/call",outcome="ok",service="svc",tool="echo"} 2`,
		`busbar_calls_total{door="rest",method="tools/call",outcome="tool_error",service="svc",tool="fails"} 1`,
		`busbar_calls_total{door="rest",method="tools/call",outcome="unknown_tool",service="",tool=""} 1`,
		`busbar_call_duration_seconds_count{method="tools/call",service="svc",tool="shared"} 3`,
		`busbar_cache_hits_total 2`, `busbar_cache_misses_total 1`, `busbar_calls_in_flight 0`,
		`busbar_bus_connected 1`, `busbar_services 1`, `busbar_audit_dropped_events_total 0`, `busbar_audit_stream_bytes `, `busbar_audit_stream_pending `, `busbar_audit_stream_limit_bytes 5.36870912e+08`, `go_goroutines `,
	} {
		if !strings.Contains(figures, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(figures, "c4n4ry") {
		t.Error("what a client wrote is among the metrics")
	}
	// The address of clients has no metrics: a proxy would hand them to everybody.
	for _, guard := range []door.Guard{{Loopback: true}, {}, {Hosts: []string{"127.0.0.1"}}} {
		if status, body := get(t, e.Handler(guard), "http://127.0.0.1/metrics"); status != http.StatusNotFound {
			t.Errorf("L7 %+v: %d %.100s", guard, status, body)
		}
	}
}

// figuresOf are the metrics at the edge's own listener for them.
func figuresOf(t *testing.T, e *edge.Edge) string {
	t.Helper()
	l, err := edge.ListenFlags{Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0"}.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.ServeAll(ctx, l) }()
	_, url, _ := strings.Cut(l.String(), " metrics=")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	_ = resp.Body.Close()
	stop()
	if err := receive(t, "the end", done); err != nil {
		t.Error(err)
	}
	return string(body)
}

// A listener for metrics shows metrics and nothing else.
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

// With accounts, or a token for metrics, metrics require a token.
func TestL7MetricsAskForAToken(t *testing.T) {
	t.Parallel()
	const own, operators = "0123456789abcdef0123", "operators-0123456789"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t)
	for name, c := range map[string]struct {
		accounts bool
		listen   string // loopback if empty
		file     string
		opens    map[string]bool // by Authorization; "" stands for no token
	}{
		"no accounts":                   {false, "", "", map[string]bool{"": true, "Bearer x": true}},
		"no accounts, a public address": {false, "0.0.0.0:0", "", map[string]bool{"": false, "Bearer x": false, "Bearer " + operators: true}},
		"accounts":                      {true, "", "", map[string]bool{"": false, "Bearer " + operators: true, "Bearer " + own: false, "Bearer ": false, "Basic " + operators: false}},
		"a token":                       {false, "", file, map[string]bool{"": false, "Bearer " + own: true, "Bearer " + own + "x": false, "Bearer " + operators: true}},
		"both":                          {true, "", file, map[string]bool{"": false, "Bearer " + own: true, "Bearer " + operators: true, "Bearer x": false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := edge.Config{Version: "1", Logger: bustest.Logger(t), Audit: edge.Audit{Off: true, Token: operators}}
			if c.accounts {
				cfg.Authenticator = nobody{}
			}
			e, err := edge.New(t.Context(), bustest.Connect(t, w.bus), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			l, err := edge.ListenFlags{Listen: "127.0.0.1:0", MetricsListen: cmp.Or(c.listen, "127.0.0.1:0"), MetricsToken: c.file, TLSByProxy: true}.Open(c.listen != "")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- e.ServeAll(ctx, l) }()
			t.Cleanup(func() {
				stop()
				if err := receive(t, "the end", done); err != nil {
					t.Error(err)
				}
			})
			for shown, opens := range c.opens {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", l.Metrics.Addr().(*net.TCPAddr).Port), nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Close = true
				if shown != "" {
					r.Header.Set("Authorization", shown)
				}
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[opens]
				if resp.StatusCode != want || strings.Contains(string(body), "busbar_") != opens {
					t.Errorf("%q: %d %.100s", shown, resp.StatusCode, body)
				}
			}
		})
	}
	for says, flags := range map[string]edge.ListenFlags{
		"--metrics-token-file": {Listen: "127.0.0.1:0", MetricsToken: "/nowhere"}, "one word": {Listen: "127.0.0.1:0", MetricsToken: "/dev/null"},
	} {
		if _, err := flags.Open(false); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// nobody refuses everybody.
type nobody struct{}

func (nobody) Authenticate(context.Context, gateway.Credentials) (gateway.Principal, error) {
	return gateway.Principal{}, fault.New(fault.Unauthenticated, "nobody is let in")
}
