// Package probe serves the state of a program to its operators, at a listener of its own:
// /healthz says that it lives, /readyz whether it is ready, or why not, and /metrics its
// metrics for Prometheus. Start at New.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/problem"
	"github.com/busbar-mcp/busbar/libs/token"
)

// The paths of a probe.
const (
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
	MetricsPath = "/metrics"
)

// Durations are the buckets of histograms of times, in seconds.
var Durations = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Check is one condition for a program to be ready. Look uses only local state and returns a
// line for people; its error says why the program is not ready, and what to do.
type Check struct {
	Name string
	Look func() (string, error)
}

// Probe holds the metrics and the checks of one program.
type Probe struct {
	*prometheus.Registry
	checks func() []Check
}

// New returns a probe with the metrics of the process. checks returns the current conditions
// for being ready.
func New(checks func() []Check) *Probe {
	p := &Probe{prometheus.NewRegistry(), checks}
	p.MustRegister(readiness{checks}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

// Gauge adds a metric whose value is computed when it is read.
func (p *Probe) Gauge(name, help string, f func() float64) {
	p.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// Counter is Gauge for a value that only grows.
func (p *Probe) Counter(name, help string, f func() float64) {
	p.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
}

// readiness exports each check as a metric.
type readiness struct{ checks func() []Check }

var ready = prometheus.NewDesc("busbar_ready", "1 if the check passes; 0 if it fails and /readyz says why.", []string{"check"}, nil)

// Describe implements prometheus.Collector.
func (readiness) Describe(all chan<- *prometheus.Desc) { all <- ready }

// Collect implements prometheus.Collector.
func (r readiness) Collect(all chan<- prometheus.Metric) {
	for _, c := range r.checks() {
		value := 1.0
		if _, err := c.Look(); err != nil {
			value = 0
		}
		all <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, value, c.Name)
	}
}

// Health answers /healthz: a program that answers lives.
func Health(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// Ready answers /readyz: a verdict, and a line for each check.
func (p *Probe) Ready(w http.ResponseWriter, _ *http.Request) {
	status, verdict := http.StatusOK, "ready"
	var lines strings.Builder
	for _, c := range p.checks() {
		line, err := c.Look()
		if err != nil {
			status, verdict, line = http.StatusServiceUnavailable, "not ready", "not ready: "+err.Error()
		}
		fmt.Fprintf(&lines, "%s: %s\n", c.Name, strings.ReplaceAll(line, "\n", "; "))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s\n%s", verdict, &lines)
}

// Metrics answers /metrics, in the format of Prometheus, or of OpenMetrics, which has
// exemplars, if the client accepts it.
func (p *Probe) Metrics() http.Handler {
	return promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxReaders})
}

const (
	// maxReaders bounds the concurrent requests for metrics.
	maxReaders = 10
	// maxConnections bounds the connections of a listener, half of which one address may
	// use.
	maxConnections = 100
)

// Serve serves the probe on l until ctx ends, and closes l. The metrics need a token in an
// Authorization header that admits accepts; the rest is open to everybody. If admits is nil, l is
// a loopback listener and the metrics are for requests that name a loopback host, so a web page
// whose name resolves to loopback cannot read them.
func (p *Probe) Serve(ctx context.Context, l net.Listener, admits func(token string) bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+HealthPath, Health)
	mux.HandleFunc("GET "+ReadyPath, p.Ready)
	mux.Handle("GET "+MetricsPath, admitted(admits, p.Metrics()))
	problem.Refuse(mux, "the paths here are "+HealthPath+", "+ReadyPath+" and "+MetricsPath+", by GET")
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Bound limits the connections of a listener for Serve.
func Bound(l net.Listener) net.Listener { return listener.Bound(l, maxConnections) }

func admitted(admits func(token string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admits == nil {
			if listener.IsLoopbackHost(r.Host) {
				next.ServeHTTP(w, r)
				return
			}
			refused := fault.New(fault.Forbidden, "metrics without a token are read at a loopback name, not at %q", fault.Clip(r.Host))
			problem.Write(w, problem.Of(http.StatusForbidden, refused, "ask as localhost or 127.0.0.1, or give --metrics-token-file and show the token"))
			return
		}
		if shown, ok := token.Shown(r.Header); ok && admits(shown) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		refused := fault.New(fault.Unauthenticated, "metrics require the token of --metrics-token-file; an edge also accepts the operator's token")
		problem.Write(w, problem.Of(http.StatusUnauthorized, refused, "send the header Authorization: Bearer with the token"))
	})
}
