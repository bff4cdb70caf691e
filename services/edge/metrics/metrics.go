// Package metrics counts what an edge does, for Prometheus. Its labels hold
// names that services gave and words of Busbar's own, nothing that a client
// wrote: no argument, no principal, no URI.
package metrics

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

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Metrics are the figures of one edge.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New makes the figures of an edge of that version.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "busbar_calls_total",
			Help: "Calls that are over, refused ones too. tool is empty unless the call is for one that exists; outcome is ok, tool_error, input_required, task, left, or a reason of docs/errors.md.",
		}, []string{"door", "method", "service", "tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "busbar_call_duration_seconds",
			Help:    "From when the door had the whole request until its answer was there.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "service"}),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "busbar_edge_info", Help: "1; the label says which version this edge is."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.calls, m.duration, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Gauge adds a figure that is asked for when it is read.
func (m *Metrics) Gauge(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// Counter is Gauge for a figure that only grows.
func (m *Metrics) Counter(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
}

// Path is where the figures are.
const Path = "/metrics"

// Handler serves the figures in the formats of Prometheus and OpenMetrics, to
// anybody: it is for a listener of its own.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Serve serves nothing but the figures on l until ctx ends, to who shows a token
// that admits does, in an Authorization header; nil admits anybody. It closes l.
func (m *Metrics) Serve(ctx context.Context, l net.Listener, admits func(token string) bool) error {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, admitted(admits, m.Handler()))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func admitted(admits func(token string) bool, next http.Handler) http.Handler {
	if admits == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const scheme = "Bearer "
		if shown := r.Header["Authorization"]; len(shown) == 1 && strings.HasPrefix(shown[0], scheme) && admits(shown[0][len(scheme):]) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "metrics are for who shows the token of --metrics-token-file, or the operator's", http.StatusUnauthorized)
	})
}

// Auditor counts the calls that it passes on to next, which may be nil.
func (m *Metrics) Auditor(next gateway.Auditor) gateway.Auditor { return &auditor{m, next} }

type auditor struct {
	metrics *Metrics
	next    gateway.Auditor
}

// Ready implements gateway.Auditor.
func (a *auditor) Ready(v gateway.View) error {
	if a.next == nil {
		return nil
	}
	return a.next.Ready(v)
}

// Begin implements gateway.Auditor.
func (a *auditor) Begin(ctx context.Context, v gateway.View) error {
	if a.next == nil {
		return nil
	}
	return a.next.Begin(ctx, v)
}

// Record implements gateway.Auditor. A call whose record cannot be made is
// counted as its client sees it.
func (a *auditor) Record(ctx context.Context, r gateway.Record) (err error) {
	outcome := r.Outcome
	if a.next != nil {
		if err = a.next.Record(ctx, r); err != nil && r.Err == nil {
			outcome = "unavailable"
		}
	}
	tool := ""
	if r.Target.Tool != nil {
		tool = r.Name
	}
	method := r.Method
	if r.Target.Service == "" && !mcp.IsMethod(method) && method != mcp.MethodSample {
		method = "other" // a client made it up
	}
	a.metrics.calls.WithLabelValues(r.Door, method, r.Target.Service, tool, outcome).Inc()
	a.metrics.duration.WithLabelValues(method, r.Target.Service).Observe(r.Duration.Seconds())
	return err
}
