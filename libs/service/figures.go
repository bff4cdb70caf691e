package service

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/probe"
)

// figures count the calls of one instance. Their labels are names of the service's own tools and
// words of Busbar, never text from a client.
type figures struct {
	service  *Service
	tools    *probe.LabelLimit[string]
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// maxTools bounds the tools with figures of their own: a service may add and remove tools
// for as long as it runs.
const maxTools = 256

func newFigures(s *Service, p *probe.Probe) *figures {
	f := &figures{
		service: s, tools: probe.NewLabelLimit[string](maxTools),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "busbar_service_calls_total",
			Help: "Calls, and runs of tasks, that a handler ended. tool is empty for other methods; outcome is ok, tool_error, input_required, task, replayed, or a reason of docs/reference/errors.md.",
		}, []string{"service", "method", "tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "busbar_service_call_duration_seconds",
			Help:    "From when a call had its slot, and its permit if it needs one, until its handler was done.",
			Buckets: probe.Durations,
		}, []string{"service", "method", "tool"}),
	}
	p.MustRegister(f.calls, f.duration)
	return f
}

// observe is bus.ServerConfig.Observe.
func (f *figures) observe(ctx context.Context, req *busv1.Request, body proto.Message, err *fault.Error, took time.Duration) {
	method, tool := f.names(req)
	probe.Count(ctx, f.calls.WithLabelValues(f.service.name, method, tool, outcome(body, err)))
	probe.Observe(ctx, f.duration.WithLabelValues(f.service.name, method, tool), took.Seconds())
}

// names are the labels of a request.
func (f *figures) names(req *busv1.Request) (method, tool string) {
	switch {
	case req.Method == mcp.MethodToolsCall:
		if look(f.service, func() bool { return f.service.tools[req.Name] != nil }) {
			if tool = req.Name; !f.tools.For(tool) {
				tool = probe.Other
			}
		}
	case !mcp.IsMethod(req.Method) && look(f.service, func() bool { return f.service.handlers[req.Method] == nil }):
		return probe.Other, ""
	}
	return req.Method, tool
}

// outcome is the label for how a call ended, the same as at an edge.
func outcome(body proto.Message, err *fault.Error) string {
	if err != nil {
		return string(err.Reason)
	}
	switch body := body.(type) {
	case *busv1.InputRequired:
		return "input_required"
	case *busv1.Task:
		return "task"
	case *busv1.Result:
		switch {
		case body.Replayed:
			return "replayed"
		case body.IsError:
			return "tool_error"
		}
	}
	return "ok"
}

// show adds an instance's identity and load to a probe.
func (r *Running) show(p *probe.Probe) {
	of := prometheus.Labels{"service": r.service.name}
	gauge := func(name, help string, f func(bus.Stats) float64) {
		p.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: of}, func() float64 { return f(r.server.Stats()) }))
	}
	counter := func(name, help string, f func(bus.Stats) float64) {
		p.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: of}, func() float64 { return f(r.server.Stats()) }))
	}
	gauge("busbar_service_calls_running", "Calls that have a slot of this instance.", func(s bus.Stats) float64 { return float64(s.Running) })
	gauge("busbar_service_calls_waiting", "Calls that wait for a slot of this instance.", func(s bus.Stats) float64 { return float64(s.Waiting) })
	gauge("busbar_service_slots", "Slots of this instance for calls of clients; calls of tools have as many at each depth.", func(s bus.Stats) float64 { return float64(s.Slots) })
	counter("busbar_service_overloaded_total", "Calls for which this instance had no slot. Edges may have made them again elsewhere.", func(s bus.Stats) float64 { return float64(s.Overloaded) })
	counter("busbar_service_unsealed_total", "Requests dropped because no edge has sealed them for this service.", func(s bus.Stats) float64 { return float64(s.Refused) })
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "busbar_service_info", Help: "1; the labels say which service, version and instance this is."}, []string{"service", "version", "instance"})
	info.WithLabelValues(r.service.name, r.service.version, r.server.Instance()).Set(1)
	p.MustRegister(info)
}
