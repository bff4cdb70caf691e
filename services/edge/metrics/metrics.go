// Package metrics counts what an edge does, for Prometheus. Its labels hold names of
// services and tools and Busbar's own words. They never hold text from a client: no
// argument, no principal, no URI. Start with New.
package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Metrics are the metrics of one edge.
type Metrics struct {
	*probe.Probe
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	// services, and tools by service, have series of their own as long as there is room.
	services     *probe.LabelLimit[string]
	tools, timed *probe.LabelLimit[toolOf]
}

type toolOf struct{ service, tool string }

// How many services, and how many tools in all, have series of their own. Anybody who may
// put a service on the bus chooses both kinds of names, as often as it likes.
const (
	maxServices = 256
	maxTools    = 2048
	// maxTimed is smaller, because a histogram is eighteen series.
	maxTimed = 256
)

// New makes the metrics of an edge with a version. checks are the checks of /readyz.
func New(version string, checks func() []probe.Check) *Metrics {
	m := &Metrics{
		Probe: probe.New(checks), services: probe.NewLabelLimit[string](maxServices), tools: probe.NewLabelLimit[toolOf](maxTools), timed: probe.NewLabelLimit[toolOf](maxTimed),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "busbar_calls_total",
			Help: "Calls that are over, refused ones too. tool is empty unless the call is for one that exists; outcome is ok, tool_error, input_required, task, left, replayed, or a reason of docs/reference/errors.md.",
		}, []string{"door", "method", "service", "tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "busbar_call_duration_seconds",
			Help:    "From when the door had the whole request until its answer was there.",
			Buckets: probe.Durations,
		}, []string{"method", "service", "tool"}),
	}
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "busbar_edge_info", Help: "1; the label says which version this edge is."}, []string{"version"})
	info.WithLabelValues(version).Set(1)
	m.MustRegister(m.calls, m.duration, info)
	return m
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

// Record implements gateway.Auditor. A call whose record fails is counted with the
// outcome that its client sees.
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
	method := r.MethodName()
	service := r.Target.Service
	if service != "" && !a.metrics.services.For(service) {
		service = probe.Other
	}
	timed := tool
	if tool != "" {
		of := toolOf{service, tool}
		if !a.metrics.tools.For(of) {
			tool = probe.Other
		}
		if !a.metrics.timed.For(of) {
			timed = probe.Other
		}
	}
	probe.Count(ctx, a.metrics.calls.WithLabelValues(r.Door, method, service, tool, outcome))
	probe.Observe(ctx, a.metrics.duration.WithLabelValues(method, service, timed), r.Duration.Seconds())
	return err
}
