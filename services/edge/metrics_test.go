package edge_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	e := one(t)
	h := e.Handler(door.Guard{Loopback: true})
	for _, c := range []struct{ tool, arguments string }{
		{"echo", `{"canary":"c4n4ry"}`}, {"echo", `{}`}, {"fails", `{}`}, {"c4n4ry", `{}`},
		{"shared", `{}`}, {"shared", `{}`}, {"shared", `{}`},
	} {
		ask(t, h, http.MethodPost, "/tools/"+c.tool, c.arguments)
	}
	_, url, _ := strings.Cut(listening(t, e, edge.ListenFlags{Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0"}, false).String(), " metrics=")
	_, figures := fetch(t, url, "")
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

// A listener for metrics shows metrics and nothing else.
func TestMetricsListen(t *testing.T) {
	t.Parallel()
	l := listening(t, one(t), edge.ListenFlags{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0"}, false)
	_, url, _ := strings.Cut(l.String(), " metrics=")
	for path, want := range map[string]int{"": http.StatusOK, "/x": http.StatusNotFound, "/../tools": http.StatusNotFound} {
		if status, body := fetch(t, url+path, ""); status != want || want == http.StatusOK && !strings.Contains(body, `busbar_edge_info{version="`) {
			t.Errorf("%s: %d %.200s", path, status, body)
		}
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
			e := w.Join(t, func(cfg *edge.Config) {
				cfg.Audit = edge.Audit{Off: true, Token: operators}
				if c.accounts {
					cfg.Authenticator = nobody{}
				}
			})
			l := listening(t, e.Edge, edge.ListenFlags{Listen: "127.0.0.1:0", MetricsListen: cmp.Or(c.listen, "127.0.0.1:0"), MetricsToken: c.file, TLSByProxy: true}, c.listen != "")
			for shown, opens := range c.opens {
				status, body := fetch(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", l.Metrics.Addr().(*net.TCPAddr).Port), shown)
				want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[opens]
				if status != want || strings.Contains(body, "busbar_") != opens {
					t.Errorf("%q: %d %.100s", shown, status, body)
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
